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
	giveWay   = 10 * time.Second // for which another node may take the lease after a failure
	maxSkew   = time.Minute      // how far a backup's time may be ahead of this machine's clock; beyond that a clock was wrong
)

// Keeper makes backups of a journal by itself. In a cluster, the node that has the lease makes them. If a node loses the lease
// while it makes one, there is one backup more.
type Keeper struct {
	place   *Place
	journal *durable.Journal
	log     *slog.Logger
	lease   *kv.LeaseHolder // nil: this node is alone, or has given the lease away
	given   time.Time       // when it gave the lease away, because its place failed; zero: never. Of the goroutine that looks
	end     func()
	next    time.Time // when to list the place again (see due); only the goroutine of look uses it
	status  atomic.Pointer[status]
}

// status is the result of the attempts so far. It does not change.
type status struct {
	since    time.Time // since when this node makes the backups; zero: it does not
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
	k.status.Store(&status{})
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

// look makes a backup if one is due and this node makes them.
func (k *Keeper) look(ctx context.Context) {
	now, s := time.Now(), *k.status.Load()
	if k.lease == nil && !k.given.IsZero() {
		if now.Sub(k.given) < giveWay {
			return
		}
		k.lease = k.journal.HoldLease("backup")
	}
	if k.lease != nil {
		if _, held := k.lease.Held(); !held {
			if now.Sub(k.given) > 2*giveWay { // another node has it: what failed here is no alarm any more
				k.next = time.Time{}
				k.status.Store(&status{failures: s.failures})
			}
			return
		}
	}
	if !k.due(now) {
		return
	}
	if s.since.IsZero() {
		s.since = now
		k.status.Store(new(s))
	}
	s.newest, s.failure = k.keep(ctx, now, s.newest)
	if ctx.Err() != nil {
		return
	}
	if k.next = now.Add(min(retry, k.place.every)); s.failure != nil {
		s.failures++
		k.log.Warn("could not make a backup or delete old ones; will retry", "to", k.place.String(), "error", s.failure)
		if k.lease != nil { // another node's place may work
			_ = k.lease.Close(ctx) // else it runs out
			k.lease, k.given = nil, now
		}
	} else {
		k.next = s.newest.Taken.Add(k.place.every)
	}
	k.status.Store(&s)
}

// due reports whether to list the place: next has come, or it is too far away because a clock that was ahead was set back.
func (k *Keeper) due(now time.Time) bool {
	wait := k.next.Sub(now)
	return wait <= 0 || wait > k.place.every+maxSkew
}

// keep makes a backup unless the newest is new enough, and then deletes old ones. It returns the newest that it knows.
func (k *Keeper) keep(ctx context.Context, now time.Time, newest *Backup) (*Backup, error) {
	journal := record.JournalText(k.journal.ID())
	listing, cancel := context.WithTimeoutCause(ctx, listTime, fmt.Errorf("no list came within %v", listTime))
	list, err := k.place.List(listing)
	err = cmp.Or(context.Cause(listing), err)
	if cancel(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return newest, err
	}
	list = slices.DeleteFunc(list, func(b Backup) bool { return b.Journal != journal || b.Taken.Sub(now) > maxSkew })
	if newest = nil; len(list) > 0 {
		if newest = &list[len(list)-1]; now.Sub(newest.Taken.Time) < k.place.every {
			return newest, nil
		}
	}
	b, err := k.place.create(ctx, journal, k.journal.Backup)
	if err != nil {
		return newest, err
	}
	k.log.Info("made and verified a backup", "to", k.place.String(), "name", b.Name, "bytes", b.Bytes, "took", time.Since(now).Round(time.Millisecond))
	return &b, k.place.prune(ctx, append(list, b))
}

// Stats are the figures of a Keeper.
type Stats struct {
	Age      *float64 `metric:"weir_backup_age_seconds" doc:"Seconds since the newest backup of --backup-to. Of a cluster only the node that makes backups has it."`
	Bytes    *int64   `metric:"weir_backup_bytes" doc:"Size of the newest backup of --backup-to."`
	Failures uint64   `metric:"weir_backup_failures_total" doc:"Attempts to make a backup, or to delete old ones, that failed."`
}

// Stats returns the figures.
func (k *Keeper) Stats() Stats {
	s := k.status.Load()
	stats := Stats{Failures: s.failures}
	if s.newest != nil {
		age := time.Since(s.newest.Taken.Time).Seconds()
		stats.Age, stats.Bytes = &age, &s.newest.Bytes
	}
	return stats
}

// Alarms say that there is no backup, or that the newest is too old.
func (k *Keeper) Alarms() []api.Alarm {
	s := k.status.Load()
	since, newer := s.since, ""
	if s.newest != nil {
		since = s.newest.Taken.Time
		newer = " newer than " + since.Format(time.RFC3339)
	}
	if since.IsZero() || time.Since(since) <= 2*k.place.every && (s.newest != nil || s.failure == nil) {
		return nil
	}
	why := cmp.Or(s.failure, errors.New("it has not ended yet"))
	return []api.Alarm{{Code: "backup_old", Message: fmt.Sprintf("%s has no backup%s, though one is due every %v; the last attempt: %v", k.place, newer, k.place.every, why)}}
}
