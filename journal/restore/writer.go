package restore

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/record"
)

// Writer writes a backup into the journal.
//
// Windows and clears are of an origin whose flushes follow from the backup alone. What
// keys have used of limits depends on when it is read: it is of an origin of this attempt,
// so that a second one charges it again. Limits are then too strict for their period,
// and never too generous.
type Writer struct {
	to   *Target
	hits *record.Encoder
	used *record.Encoder
	keys uint64
	last int // partition of the flush's last batch
}

// NewWriter returns one for a backup that is of origin id in the journal, under that name.
func (t *Target) NewWriter(id uint64, name string) *Writer {
	of := func(id uint64, name string) *record.Encoder {
		e := record.NewEncoder(record.Incarnation{Origin: id, Epoch: 1}, t.Engine.Config().Partitions)
		e.Restored, e.Node = true, name
		return e
	}
	used := rand.Uint64()>>1 + 1
	w := &Writer{to: t, hits: of(id, name), used: of(used, record.BackupName(used))}
	w.used.Leaving = true // of whatever attempt: nobody waits for another flush
	w.hits.Begin(time.Now())
	return w
}

// flushBytes is after how many bytes a flush is closed: it stays one message.
const flushBytes = record.MaxPartBytes / 2

// Clear writes that all that was counted before counts no more.
func (w *Writer) Clear(ctx context.Context) error {
	for partition := range w.to.Engine.Config().Partitions {
		w.hits.AddRestored(partition, record.KindClear, []byte{1}, 1)
	}
	return w.flush(ctx)
}

// Content writes what a partition of the backup has.
func (w *Writer) Content(ctx context.Context, from *weir.Engine, c replication.Content) error {
	admissions, err := replication.Of(from).Admissions(c)
	if err != nil {
		return err
	}
	if err := w.usage(ctx, admissions, nil); err != nil {
		return err
	}
	w.keys += uint64(len(c.Keys))
	return backup.Pour(c, w.to.Engine, func(p backup.Batch) error {
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

func (w *Writer) flush(ctx context.Context) error {
	parts := w.hits.End(nil)
	err := w.to.HandOver(ctx, parts)
	w.hits.Begin(time.Now())
	w.last = 0
	return err
}

// usage writes what keys have used of limits, and receipts.
func (w *Writer) usage(ctx context.Context, admissions []replication.Admission, receipts [][]byte) error {
	if len(admissions) == 0 && len(receipts) == 0 {
		return nil
	}
	by := map[int][]replication.Admission{}
	for _, a := range admissions {
		partition := replication.Of(w.to.Engine).PartitionOf(a.Key)
		by[partition] = append(by[partition], a)
	}
	w.used.Begin(time.Now())
	for partition := range w.to.Engine.Config().Partitions {
		w.used.AddAdmissions(partition, by[partition])
	}
	return w.to.HandOver(ctx, w.used.End(receipts))
}
