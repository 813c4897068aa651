package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/settings"
)

// Config says where backups are kept. The zero value keeps none.
type Config struct {
	To       string // URL of a Place
	Insecure bool   // it may be on another machine without TLS
}

// Validate returns a *engine.Error that names the field at fault.
func (c Config) Validate() error {
	if c.To == "" {
		return nil
	}
	if _, err := OpenPlace(c.To, c.Insecure); err != nil {
		return settings.Invalid("To", err.Error()) // without the URL, in case somebody wrote a secret into it
	}
	return nil
}

const (
	lookEvery = time.Second
	retry     = time.Minute // after a failure
	listTime  = 5 * time.Minute
	skewMost  = time.Minute // by which a backup may be newer than this machine's clock. One that is newer comes from a wrong clock
)

// Keeper makes backups of a journal by itself. In a cluster the node does that has the lease. If two nodes do, because one lost the
// lease while it made one, there is one backup more.
type Keeper struct {
	place   *Place
	journal *durable.Journal
	log     *slog.Logger
	lease   *kv.LeaseHolder // nil: this node is alone
	end     func()
	next    time.Time // when to look into the place; of the goroutine that looks. See due
	is      atomic.Pointer[status]
}

// status is what attempts came to. It does not change.
type status struct {
	since    time.Time // when it became this node's to make backups; zero: it is not
	newest   *Backup   // nil: none is known
	failure  error     // of the last attempt
	failures uint64
}

// Keep starts to make backups, until Close.
func Keep(cfg Config, j *durable.Journal, log *slog.Logger) (*Keeper, error) {
	p, err := OpenPlace(cfg.To, cfg.Insecure)
	if err != nil {
		return nil, err
	}
	k := &Keeper{place: p, journal: j, log: log, lease: j.HoldLease("backup")}
	k.is.Store(&status{})
	k.end = concurrency.Background(context.Background(), func(ctx context.Context) {
		concurrency.Repeat(ctx, lookEvery, func() { k.look(ctx) })
	})
	return k, nil
}

// Close ends a backup that is being made.
func (k *Keeper) Close(ctx context.Context) error {
	k.end()
	if k.lease == nil {
		return nil
	}
	return k.lease.Close(ctx)
}

// look makes a backup if it is this node's to make, and due.
func (k *Keeper) look(ctx context.Context) {
	now, is := time.Now(), *k.is.Load()
	if k.lease != nil {
		if _, held := k.lease.Held(); !held {
			k.next = time.Time{}
			k.is.Store(&status{failures: is.failures})
			return
		}
	}
	if !k.due(now) {
		return
	}
	if is.since.IsZero() {
		is.since = now
		k.is.Store(new(is))
	}
	is.failure = k.keep(ctx, now, &is.newest)
	if ctx.Err() != nil {
		return
	}
	if k.next = now.Add(min(retry, k.place.every)); is.failure != nil {
		is.failures++
		k.log.Warn("could not make a backup or delete old ones; will retry", "to", k.place.String(), "error", is.failure)
	} else {
		k.next = is.newest.Taken.Add(k.place.every)
	}
	k.is.Store(&is)
}

// due tells whether to look into the place. It is when a clock that was ahead was set back, too.
func (k *Keeper) due(now time.Time) bool {
	wait := k.next.Sub(now)
	return wait <= 0 || wait > k.place.every+skewMost
}

// keep makes a backup unless the newest is new enough, and then deletes old ones.
func (k *Keeper) keep(ctx context.Context, now time.Time, newest **Backup) error {
	journal := record.JournalText(k.journal.ID())
	listing, cancel := context.WithTimeoutCause(ctx, listTime, fmt.Errorf("no list came within %v", listTime))
	list, err := k.place.List(listing)
	err = cmp.Or(context.Cause(listing), err)
	if cancel(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list = slices.DeleteFunc(list, func(b Backup) bool { return b.Journal != journal || b.Taken.Sub(now) > skewMost })
	if *newest = nil; len(list) > 0 {
		*newest = &list[len(list)-1]
		if now.Sub((*newest).Taken.Time) < k.place.every {
			return nil
		}
	}
	b, err := k.place.make(ctx, journal, k.journal.Backup)
	if err != nil {
		return err
	}
	*newest = &b
	k.log.Info("made and verified a backup", "to", k.place.String(), "name", b.Name, "bytes", b.Bytes, "took", time.Since(now).Round(time.Millisecond))
	return k.place.prune(ctx, append(list, b))
}

// Stats are the figures of a Keeper.
type Stats struct {
	Age      *float64 `metric:"weir_backup_age_seconds" doc:"Seconds since the newest backup of --backup-to. Of a cluster only the node that makes backups has it."`
	Bytes    *int64   `metric:"weir_backup_bytes" doc:"Size of the newest backup of --backup-to."`
	Failures uint64   `metric:"weir_backup_failures_total" doc:"Attempts to make a backup, or to delete old ones, that failed."`
}

// Stats returns the figures.
func (k *Keeper) Stats() Stats {
	is := k.is.Load()
	s := Stats{Failures: is.failures}
	if is.newest != nil {
		age := time.Since(is.newest.Taken.Time).Seconds()
		s.Age, s.Bytes = &age, &is.newest.Bytes
	}
	return s
}

// Alarms say that there is no backup, or that the newest is too old.
func (k *Keeper) Alarms() []api.Alarm {
	is := k.is.Load()
	since, newer := is.since, ""
	if is.newest != nil {
		since = is.newest.Taken.Time
		newer = " newer than " + since.Format(time.RFC3339)
	}
	if since.IsZero() || time.Since(since) <= 2*k.place.every && (is.newest != nil || is.failure == nil) {
		return nil
	}
	why := cmp.Or(is.failure, errors.New("it has not ended yet"))
	return []api.Alarm{{Code: "backup_old", Message: fmt.Sprintf("%s has no backup%s, though one is due every %v; the last attempt: %v", k.place, newer, k.place.every, why)}}
}
