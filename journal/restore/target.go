package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/document"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// Mode says what becomes of the hits that are there.
type Mode string

const (
	// Merge adds the backup's hits to those that are there. The same backup counts once,
	// however often it is merged.
	Merge Mode = "merge"

	// Replace makes the counts those of the backup, and what is hit from then on.
	Replace Mode = "replace"
)

// Result is what a restore did.
type Result struct {
	Backup backup.Info
	Again  bool   // it was merged before as a whole, and nothing was done
	Origin string // under which the backup is in the journal, 16 hexadecimal digits
	Keys   uint64 // windows of keys that were written
}

// SpoolFile is where in the data directory a backup is while it is restored.
const SpoolFile = "restore.spool"

// Target is a journal in use that backups are restored into.
type Target struct {
	Engine   *weir.Engine
	Replica  *replica.Replica
	Merges   *Merges
	Policies *document.Document // that were put by API
	Claims   *Claims
	Node     string // this one's name; "": it is alone
	Dir      string // the data directory
	MaxBytes int64  // that a backup may have
	Log      *slog.Logger

	Sync     func(context.Context) error                     // returns when all own hits are in the journal
	CatchUp  func(context.Context) error                     // returns when all is counted here that any node acknowledged; nil: there is this node alone
	HandOver func(ctx context.Context, parts [][]byte) error // writes a flush between those of this node

	FlushBytes int // after which a flush of the backup is closed; 0: as much as one message has room for
}

// Restore restores a backup into this journal while it is in use, on all nodes: what
// the backup has goes through the journal as hits do. The backup is copied into the data
// directory first and checked as a whole: one that is damaged or cut short changes
// nothing. It may be of other partitions, and of another retention, to which it is
// brought. What keys have used of limits, and receipts, are added in both modes. Policies that were put by API
// are added to those that are there (Merge), or take their place (Replace).
//
// If it ends early, by an error or a crash, the same call does what is left of it: Merge
// goes on, Replace starts over. One node of a cluster restores at a time: while another
// does, the error wraps ErrRestoring. Until then nodes of a cluster call the backup late.
func (t *Target) Restore(ctx context.Context, r io.Reader, mode Mode) (done Result, err error) {
	if mode != Merge && mode != Replace {
		return done, fmt.Errorf("restore: mode %q: must be merge or replace", mode)
	}
	ctx, free, err := t.Claims.Claim(ctx)
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer free()
	path := filepath.Join(t.Dir, SpoolFile)
	s, err := backup.NewSpool(ctx, r, path, t.MaxBytes)
	if errors.Is(err, record.ErrDamaged) || errors.Is(err, backup.ErrNoBackup) {
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
func (t *Target) Spool(ctx context.Context, s *backup.Spool, mode Mode) (done Result, err error) {
	done.Backup = s.Info
	if t.CatchUp != nil { // what another node has merged is to be known here
		if err := t.CatchUp(ctx); err != nil {
			return done, err
		}
	}
	id, name := rand.Uint64()>>1+1, record.ReplacingBackup
	if mode == Merge {
		replaced, err := t.Merges.replacedBy(ctx)
		if err != nil {
			return done, err
		}
		id = s.ID(t.Engine.Config(), replaced)
		name = record.BackupName(id)
	}
	done.Origin = record.JournalText(id)
	if mode == Merge {
		if done.Again, err = t.Merges.begin(ctx, s, id, t.Node, t.Replica); err != nil || done.Again {
			return done, err
		}
	}
	w := t.NewWriter(id, name)
	if mode == Replace {
		if err := t.Sync(ctx); err != nil { // own hits from before are before it in the journal
			return done, err
		}
		if err := w.Clear(ctx); err != nil {
			return done, err
		}
		if err := t.Merges.beginReplaced(ctx, id); err != nil {
			return done, err
		}
	}
	if err := s.Each(ctx, func(from *weir.Engine, c replication.Content) error { return w.Content(ctx, from, c) },
		func(list [][]byte) error { return w.usage(ctx, nil, list) }); err != nil {
		return done, err
	}
	if err := Policies(ctx, t.Policies, s.Info.Policies, mode == Replace); err != nil {
		return done, err
	}
	w.hits.Leaving = true
	if err := w.flush(ctx); err != nil {
		return done, err
	}
	done.Keys = w.keys
	if mode == Replace { // what it has is here, as if it had been merged
		of := EntryOf(s, t.Node)
		of.Whole = true
		if err := t.Merges.Record(ctx, record.JournalText(s.ID(t.Engine.Config(), id)), of); err != nil {
			return done, err
		}
	}
	if t.CatchUp != nil {
		err = t.CatchUp(ctx)
	}
	t.Log.Info("journal: a backup was restored", "mode", string(mode), "taken", s.Info.Taken, "keys", done.Keys, "origin", done.Origin)
	return done, err
}
