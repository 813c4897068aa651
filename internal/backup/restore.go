package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// SpoolFile is where in the data directory a backup is while it is restored.
const SpoolFile = "restore.spool"

// RestoreTarget is a journal in use that backups are restored into.
type RestoreTarget struct {
	Engine   *engine.Engine
	Replica  *replica.Replica
	Merges   *Merges
	Policies *kv.Document // that were put by API
	Claims   *RestoreClaims
	Node     string // this one's name; "": it is alone
	Dir      string // the data directory
	MaxBytes int64  // that a backup may have
	Log      *slog.Logger

	Sync     func(context.Context) error                     // returns when all own hits are in the journal
	CatchUp  func(context.Context) error                     // returns when all is counted here that any node acknowledged; nil: there is this node alone
	HandOver func(ctx context.Context, parts [][]byte) error // writes a flush, or parts of one, between this node's flushes

	HandOverWithSpace func(ctx context.Context, parts [][]byte) error // is HandOver that waits while the journal has no space

	// HoldSpace waits until the journal has space for so many bytes at once, and keeps it from being trimmed beyond them until free.
	HoldSpace func(ctx context.Context, bytes int64) (held context.Context, free func(), err error)

	FlushBytes int // after which a message of the backup is closed; 0: as much as one may have
}

// Restore restores a backup into this journal while it is in use, on all nodes: what
// the backup has goes through the journal as hits do. The backup is copied into the data
// directory first and checked as a whole: one that is damaged or cut short changes
// nothing. It may have other partitions and another retention: it is
// converted. What keys have used of limits, and receipts, are added in both modes. A counter of Redis commands is set to what
// the backup has, with api.Merge only where there is none. Policies that were put by API
// are added to those that are there (api.Merge), or take their place (api.Replace).
//
// api.Replace is one flush in many messages. Until the last one is in the journal all counts stay
// as they are. Then the counts of the backup take their place.
//
// If it ends early, by an error or a crash, an api.Merge goes on when it is called again, and an
// api.Replace is undone. One node of a cluster restores at a time: while another
// does, the error wraps ErrRestoring. Until its end nodes of a cluster call a merge late.
func (t *RestoreTarget) Restore(ctx context.Context, r io.Reader, mode api.RestoreMode) (done api.Restored, err error) {
	if mode != api.Merge && mode != api.Replace {
		return done, fmt.Errorf("restore: mode %q: must be merge or replace", mode)
	}
	ctx, free, err := t.Claims.Claim(ctx)
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer free()
	path := filepath.Join(t.Dir, SpoolFile)
	s, err := NewSpool(ctx, r, path, t.MaxBytes)
	if errors.Is(err, record.ErrDamaged) || errors.Is(err, ErrNoBackup) {
		err = fmt.Errorf("%w: %w", ErrDamagedBackup, err)
	}
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	if done, err = t.Spool(ctx, s, mode); err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	return done, nil
}

// Spool is Restore of a backup that was checked.
func (t *RestoreTarget) Spool(ctx context.Context, s *Spool, mode api.RestoreMode) (done api.Restored, err error) {
	done.Mode, done.Taken = mode, s.Info.Taken.Unix()
	if t.CatchUp != nil { // what another node has merged is to be known here
		if err := t.CatchUp(ctx); err != nil {
			return done, err
		}
	}
	if mode == api.Replace {
		return t.replace(ctx, s)
	}
	replaced, err := t.Merges.replacedBy(ctx)
	if err != nil {
		return done, err
	}
	id := s.ID(t.Engine.Config(), replaced)
	done.Origin = record.JournalText(id)
	if done.Again, err = t.Merges.begin(ctx, s, id, t.Node, t.Replica); err != nil || done.Again {
		return done, err
	}
	w := t.NewWriter(id)
	if err := w.write(ctx, s); err != nil {
		return done, err
	}
	if err := RestorePolicies(ctx, t.Policies, s.Info.Policies, false); err != nil {
		return done, err
	}
	if err := w.End(ctx); err != nil {
		return done, err
	}
	done.Keys = w.keys
	return done, t.restored(ctx, done)
}

// restored returns when all is counted here.
func (t *RestoreTarget) restored(ctx context.Context, done api.Restored) error {
	t.Log.Info("journal: a backup was restored", "mode", string(done.Mode), "taken", done.TakenAt(), "keys", done.Keys, "origin", done.Origin)
	if t.CatchUp == nil {
		return nil
	}
	return t.CatchUp(ctx)
}

// RestoreLease is held by the one node of a cluster that restores a backup. Two at once
// would leave some hits of a merge cleared by the replacement, and others not.
const RestoreLease = "restore"

// RestoreClaims is the right to restore a backup.
type RestoreClaims struct {
	Leases *kv.Bucket // nil: this node is alone
	Node   string     // its name
	Log    *slog.Logger

	here sync.Mutex // held while this node restores
}

// Claim makes this node the one that restores a backup, or returns an error that
// wraps ErrRestoring and names the node that does. The context that it returns ends with
// ctx, and when the claim is lost; free gives the claim back. A node that crashes keeps it
// for kv.DefaultTTL, unless it starts again and claims it itself.
func (c *RestoreClaims) Claim(ctx context.Context) (claimed context.Context, free func(), err error) {
	if !c.here.TryLock() {
		return nil, nil, fmt.Errorf("%w, by this node", ErrRestoring)
	}
	if c.Leases == nil {
		return ctx, c.here.Unlock, nil
	}
	var held kv.Lease
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		if held, err = c.Leases.Acquire(ctx, RestoreLease); errors.Is(err, kv.ErrTaken) {
			err = c.who(ctx)
		}
		return err
	})
	if err != nil {
		c.here.Unlock()
		return nil, nil, err
	}
	claimed, lose := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		held = c.renew(claimed, held, lose)
	}()
	return claimed, func() {
		lose(nil)
		<-ended
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), stream.AskTime)
		defer cancel()
		if err := c.Leases.Release(asking, held); err != nil {
			c.Log.Warn("journal: could not release the claim to restore a backup; it will expire", "error", err, "after", c.Leases.TTL())
		}
		c.here.Unlock()
	}, nil
}

// claimPoll is how often a start looks whether another node still restores a backup.
const claimPoll = time.Second

// Await is Claim once no other node restores a backup.
func (c *RestoreClaims) Await(ctx context.Context) (claimed context.Context, free func(), err error) {
	for logged := false; ; logged = true {
		claimed, free, err = c.Claim(ctx)
		if !errors.Is(err, ErrRestoring) {
			return claimed, free, err
		}
		if !logged {
			c.Log.Info("journal: waiting to write the counts of this former single node into the cluster's journal", "for", err)
		}
		if ended := concurrency.Sleep(ctx, claimPoll); ended != nil {
			return nil, nil, errors.Join(ended, err)
		}
	}
}

// who is the error that names the node with the claim. If the bucket has none now,
// or this node's, the claim may come from a request of this node whose answer was
// lost. RetryUnavailable claims again after that error.
func (c *RestoreClaims) who(ctx context.Context) error {
	node, err := c.Leases.Who(ctx, RestoreLease)
	if err != nil || node == "" || node == c.Node {
		return fmt.Errorf("%w, by a node that is not known yet: %w", ErrRestoring, nats.ErrTimeout)
	}
	return fmt.Errorf("%w, by node %s; retry once it is done, or %v after that node crashed", ErrRestoring, node, c.Leases.TTL())
}

// ErrClaimLost is why a restore ends before its time.
var ErrClaimLost = errors.New("the cluster could not be asked in time whether this node is still the one that restores a backup: send the backup again")

// renew renews the claim until ctx ends, and ends the restore before another node
// may have it.
func (c *RestoreClaims) renew(ctx context.Context, held kv.Lease, lose context.CancelCauseFunc) kv.Lease {
	concurrency.Every(ctx, min(stream.AskTime, c.Leases.TTL()/6), func() bool {
		asking, cancel := context.WithDeadline(ctx, held.Until)
		renewed, err := c.Leases.Renew(asking, held)
		cancel()
		switch {
		case err == nil:
			held = renewed
		case errors.Is(err, kv.ErrLost), !held.Valid(time.Now()):
			lose(fmt.Errorf("%w: %w", ErrClaimLost, err))
			return false
		}
		return true
	})
	return held
}

// RestoreWriter writes a backup into the journal.
//
// Windows and clears have an origin whose flushes follow from the backup alone. What
// keys have used of limits depends on when it is read: it has an origin of this attempt,
// so that a second attempt charges it again. Limits are then too strict for their period,
// and never too generous.
type RestoreWriter struct {
	to       *RestoreTarget
	hits     *record.Encoder
	used     *record.Encoder
	replaces bool // all is one flush, which begins with the clears of all partitions
	keys     uint64
	last     int // partition of the flush's last batch
}

// NewWriter returns one for a backup that is merged under origin id in the journal.
func (t *RestoreTarget) NewWriter(id uint64) *RestoreWriter {
	used := rand.Uint64()>>1 + 1
	w := &RestoreWriter{to: t, hits: t.encoder(id, record.BackupName(id)), used: t.encoder(used, record.BackupName(used))}
	w.used.Leaving = true // of whatever attempt: nobody waits for another flush
	w.hits.Begin(time.Now())
	return w
}

func (t *RestoreTarget) encoder(id uint64, name string) *record.Encoder {
	e := record.NewEncoder(record.Incarnation{Origin: id, Epoch: 1}, t.Engine.Config().Partitions)
	e.Restored, e.Node = true, name
	return e
}

// flushBytes is after how many bytes a flush is closed: it stays one message.
const flushBytes = record.MaxPartBytes / 2

// write writes all that the backup has, but for the end.
func (w *RestoreWriter) write(ctx context.Context, s *Spool) error {
	return s.Each(ctx, func(from *engine.Engine, c replication.Content) error { return w.Content(ctx, from, c) },
		func(list [][]byte, moves []replication.Request) error { return w.usage(ctx, nil, nil, list, moves...) })
}

// End writes that there is no more: what replaces all hits takes their place with it.
func (w *RestoreWriter) End(ctx context.Context) error {
	w.hits.Leaving = true
	return w.flush(ctx)
}

// Content writes what a partition of the backup has.
func (w *RestoreWriter) Content(ctx context.Context, from *engine.Engine, c replication.Content) error {
	admissions, err := from.Limits().Admissions(c)
	if err != nil {
		return err
	}
	changes := slices.DeleteFunc(openChanges(c), func(one replication.Change) bool {
		counter, is := one.(*replication.Counter)
		return is && (w.replaces || w.to.hasCounter(counter.Key))
	})
	if err := w.usage(ctx, admissions, changes, nil); err != nil {
		return err
	}
	w.keys += uint64(len(c.Keys))
	return Pour(c, w.to.Engine, func(p record.Batch) error {
		if w.replaces {
			w.hits.AddRestored(p.Partition, p.Kind, p.Entries, p.N)
			return w.drain(ctx)
		}
		if p.Partition < w.last { // batches of one partition stand side by side in a flush
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		w.last = p.Partition
		w.hits.AddRestored(p.Partition, p.Kind, p.Entries, p.N)
		if w.hits.Size() < cmp.Or(w.to.FlushBytes, flushBytes) {
			return nil
		}
		return w.flush(ctx)
	})
}

// drain writes the messages of the flush that are whole.
func (w *RestoreWriter) drain(ctx context.Context) error {
	parts := w.hits.Drain()
	if len(parts) == 0 {
		return nil
	}
	return w.to.HandOver(ctx, parts)
}

func (w *RestoreWriter) flush(ctx context.Context) error {
	parts, write := w.hits.End(nil), w.to.HandOverWithSpace
	if w.replaces {
		write = w.to.HandOver
	}
	err := write(ctx, parts)
	w.hits.Begin(time.Now())
	w.last = 0
	return err
}

// openChanges are the changes of a content that matter elsewhere: what was settled does not.
func openChanges(c replication.Content) []replication.Change {
	return slices.DeleteFunc(slices.Clone(c.Changes), func(one replication.Change) bool {
		r, reserved := one.(*replication.Reservation)
		return reserved && r.Settled
	})
}

// hasCounter reports whether there is a counter of Redis commands here, which a merge leaves as it is.
func (t *RestoreTarget) hasCounter(key string) bool {
	table := t.Engine.Counters()
	view := table.View()
	_, has := view.Get(table.Now(), []byte(key))
	return has
}

// counters writes the counters of Redis commands once all hits are replaced, in place of the counters of the same keys: a
// replacement that is undone changes none.
func (w *RestoreWriter) counters(ctx context.Context, s *Spool) error {
	return s.Each(ctx, func(_ *engine.Engine, c replication.Content) error {
		return w.usage(ctx, nil, slices.DeleteFunc(openChanges(c), func(one replication.Change) bool {
			_, is := one.(*replication.Counter)
			return !is
		}), nil)
	}, func([][]byte, []replication.Request) error { return nil })
}

// usage writes what keys have used and have of limits, receipts, and where topics are counted.
func (w *RestoreWriter) usage(ctx context.Context, admissions []replication.Admission, changes []replication.Change, receipts [][]byte, moves ...replication.Request) error {
	if len(admissions)+len(changes)+len(receipts)+len(moves) == 0 {
		return nil
	}
	partitions := w.to.Engine.Config().Partitions
	used, changed := make([][]replication.Admission, partitions), make([][]replication.Change, partitions)
	for _, a := range admissions {
		partition := w.to.Engine.Keyspace().PartitionOf(a.Key)
		used[partition] = append(used[partition], a)
	}
	for _, one := range changes {
		partition := w.to.Engine.Keyspace().PartitionOf(replication.KeyOf(one))
		changed[partition] = append(changed[partition], one)
	}
	w.used.Begin(time.Now())
	for partition := range partitions {
		w.used.AddChanges(partition, changed[partition])
		w.used.AddAdmissions(partition, used[partition])
	}
	return w.to.HandOverWithSpace(ctx, w.used.End(receipts, moves...))
}

// RestorePolicies restores the policies of a backup that were put by API: with replace instead of the policies that are there, else in addition.
func RestorePolicies(ctx context.Context, to *kv.Document, backup []byte, replace bool) error {
	from, err := admit.ReadStoredPolicies(backup)
	if err != nil {
		return err
	}
	for {
		data, revision, err := to.Read(ctx)
		if err != nil {
			return err
		}
		have, err := admit.ReadStoredPolicies(data)
		if err != nil {
			return err
		}
		if len(from.Policies) == 0 && (!replace || len(have.Policies) == 0) {
			return nil
		}
		next, err := have.Restore(from, replace)
		if err != nil {
			return err
		}
		if written, err := to.Write(ctx, next.Bytes(), revision); written || err != nil {
			return err
		}
	}
}
