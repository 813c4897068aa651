package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// A backup has a copy of the SQLite file with all hits up to the backup's last message, and none after it. The directory that is made of
// the backup has another journal, whose snapshots have the same hits. So the copy goes on after these snapshots, and nothing is counted
// twice. The rows of the former journal stay.

// backupSuffix is of the copy, which loses its name as soon as it is open.
const backupSuffix = ".backup"

// copying is a copy that a backup asks the writer for.
type copying struct {
	ctx    context.Context
	moment func(ctx context.Context) (last uint64, err error)
	path   string
	done   chan error // holds one
}

// InFile reports whether the history is in a file of this node.
func (h *History) InFile() bool { return h.store.File() != "" }

// CopyAt has the writer stop, calls moment, and returns a copy of the file, which there must be, with all hits up to the message that moment returns.
func (h *History) CopyAt(ctx context.Context, moment func(ctx context.Context) (last uint64, err error)) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	c := copying{ctx, moment, h.store.File() + backupSuffix, make(chan error, 1)}
	for sent := false; !sent; {
		h.writer.Kick()
		select {
		case h.writer.copied <- c:
			sent = true
		case <-time.After(awaitPoll):
			if is := h.Status(); is.Err != nil {
				return nil, is.Err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	err := <-c.done
	var file *os.File
	if err == nil {
		file, err = os.Open(c.path)
	}
	if err = errors.Join(err, remove(c.path)); err != nil {
		return nil, err
	}
	return file, nil
}

// copyTo writes a copy. It ends with the writer, too.
func (w *Writer) copyTo(ctx context.Context, c copying) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	last, err := c.moment(ctx)
	if err != nil {
		return err
	}
	g := newGather(w.lease.Slot)
	for w.tail.Next() <= last && err == nil {
		g.again()
		err = w.advance(ctx, g, last, w.lease.AsOf)
	}
	switch {
	case err != nil:
		w.tail = nil // it has read what was not written
		return err
	case w.tail.Next() != last+1:
		return fmt.Errorf("it has the journal up to message %d, and the backup up to %d", w.tail.Next()-1, last)
	}
	if err := w.cfg.Store.CheckSpace(2 * w.cfg.Store.FileSize()); err != nil {
		return err
	}
	return w.cfg.Store.CopyTo(ctx, c.path)
}

// Restored has a copy go on with the journal of a directory that was made of the same backup, taken at a time. All hits of that journal
// are in snapshots.
func Restored(ctx context.Context, file string, j WriterJournal, taken time.Time) (err error) {
	s, err := store.Open(store.Config{URL: "sqlite:" + file})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Migrate(ctx); err != nil { // it may be of an earlier version
		return err
	}
	snaps := make([]*record.Snapshot, j.Partitions())
	if err := j.NewestSnapshots(ctx, func(partition int, snap *record.Snapshot) error {
		if snap != nil {
			snap.State, snap.Receipts = nil, nil
		}
		snaps[partition] = snap
		return nil
	}); err != nil {
		return err
	}
	var slot time.Duration
	var rolled int64
	if err := s.View(ctx, func(v *store.View) error {
		slot, rolled = v.Slot, v.Rolled
		return nil
	}); err != nil {
		return err
	}
	l, err := s.Claim(ctx, j.ID(), "restore", 0, leaseTTL, slot)
	if err != nil {
		return err
	}
	l.Rolled = rolled
	b := &store.Batch{Position: replica.After(j, snaps).Position(), AsOf: taken}
	if b.Message, _, err = replica.Reached(b.Position); err != nil {
		return err
	}
	b.UpTo = b.Message
	return errors.Join(s.Commit(ctx, &l, b), s.Release(ctx, &l))
}
