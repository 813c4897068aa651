package backup

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A backup replaces all hits in one flush, whose messages begin with the clears of all partitions. A flush counts as a whole or not at
// all, so its last message is the record that switches over:
//
//	Merges.replacement | part 0 ... part n-1 | the last part | policies, Merges | -
//	                     all counts are those of before        those of the backup
//
// If it ends early, Merges still says what to do. The same call does it after an error. Else Recover does it at the next start of this node, or of the node
// that then has the claim. If the last part is in the journal, the rest follows; else a flush of the next epoch says that the parts count for nothing.
// Until then snapshots begin before the first part, or none are taken.

// undoneEpoch is the epoch of the flush which says that the parts of epoch 1 count for nothing.
const undoneEpoch = 2

// partitionBytes is what a partition takes in the journal in addition to its share of the backup, at most: its clear and its evicted keys.
const partitionBytes = 8 << 10

// endTime bounds what follows an error: the caller may be gone.
const endTime = 10 * time.Second

func (t *RestoreTarget) replace(ctx context.Context, s *Spool) (done api.Restored, err error) {
	if err := t.settle(ctx); err != nil { // an earlier one that was interrupted
		return done, err
	}
	cfg := t.Engine.Config()
	held, free, err := t.HoldSpace(ctx, s.Info.Bytes+int64(cfg.Partitions)*partitionBytes)
	if err != nil {
		return done, err
	}
	defer free()
	id := rand.Uint64()>>1 + 1
	done = api.Restored{Mode: api.Replace, Taken: s.Info.Taken.Unix(), Origin: record.JournalText(id)}
	entry := RestoreEntryOf(s, t.Node)
	entry.Whole = true // as if it had been merged
	r := replacement{ID: id, Key: record.JournalText(s.ID(cfg, id)), Entry: entry}
	if err := t.Sync(ctx); err != nil { // own hits from before are before it in the journal
		return done, err
	}
	if err := t.Merges.beginReplacement(ctx, r); err != nil {
		return done, err
	}
	w := t.NewReplacement(id)
	if err = w.write(held, s); err == nil {
		err = w.End(held)
	}
	if err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		return done, errors.Join(err, t.settle(ending))
	}
	done.Keys = w.keys
	if err := t.restored(ctx, done); err != nil {
		return done, err
	}
	if !t.Replica.Replaced(id) { // this process stood still, and another node took the claim
		return done, ErrClaimLost
	}
	if err := w.counters(ctx, s); err != nil {
		return done, err
	}
	return done, t.finish(ctx, r)
}

// NewReplacement returns a writer of a backup that replaces all hits, as origin id.
func (t *RestoreTarget) NewReplacement(id uint64) *RestoreWriter {
	w := t.NewWriter(id)
	w.hits.Node, w.hits.PartBytes, w.replaces = record.ReplacingBackup, cmp.Or(t.FlushBytes, record.MaxPartBytes), true
	for partition := range t.Engine.Config().Partitions {
		w.hits.AddRestored(partition, record.KindClear, []byte{1}, 1)
	}
	return w
}

// finish makes the rest what the backup has: all its hits are here.
func (t *RestoreTarget) finish(ctx context.Context, r replacement) error {
	if err := RestorePolicies(ctx, t.Policies, r.Entry.Policies, true); err != nil {
		return err
	}
	return t.Merges.endReplacement(ctx, &r)
}

// Recover ends a replacement that was interrupted: it is completed if all of it is in the journal, else undone. While a node restores, the error wraps
// ErrRestoring.
func (t *RestoreTarget) Recover(ctx context.Context) error {
	if len(t.Replica.Undecided()) == 0 {
		if _, found, err := t.Merges.replacement(ctx); err != nil || !found {
			return err
		}
	}
	ctx, free, err := t.Claims.Claim(ctx)
	if err != nil {
		return err
	}
	defer free()
	return t.settle(ctx)
}

// settle is Recover by the node that has the claim.
func (t *RestoreTarget) settle(ctx context.Context) error {
	r, found, err := t.Merges.replacement(ctx)
	if err != nil {
		return err
	}
	if t.CatchUp != nil && (found || len(t.Replica.Undecided()) > 0) { // what is in the journal by now decides
		if err := t.CatchUp(ctx); err != nil {
			return err
		}
	}
	undecided := t.Replica.Undecided()
	for _, id := range undecided {
		if err := t.undo(ctx, id); err != nil {
			return err
		}
	}
	if undone := found && !t.Replica.Replaced(r.ID); undone || len(undecided) > 0 {
		t.Log.Warn("journal: a restore that replaces all hits was interrupted and undone: all counts are as before. Restore the backup again",
			"taken", r.Entry.Taken, "began", r.Entry.Began, "node", r.Entry.Node)
		if undone {
			return t.Merges.endReplacement(ctx, nil)
		}
	}
	if !found {
		return nil
	}
	t.Log.Warn("journal: completed a restore that was interrupted at its end", "taken", r.Entry.Taken, "began", r.Entry.Began, "node", r.Entry.Node)
	return t.finish(ctx, r)
}

// undo writes that the parts of a replacement count for nothing.
func (t *RestoreTarget) undo(ctx context.Context, id uint64) error {
	e := t.encoder(id, record.ReplacingBackup)
	e.Epoch, e.Leaving = undoneEpoch, true
	e.Begin(time.Now())
	if err := t.HandOver(ctx, e.End(nil)); err != nil {
		return err
	}
	if t.CatchUp != nil {
		return t.CatchUp(ctx)
	}
	return nil
}
