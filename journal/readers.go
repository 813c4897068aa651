package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/tail"
)

// Messages is the journal as a tail reads it.
type Messages struct{ j *Journal }

var _ tail.Source = Messages{}

// Messages is the journal for readers that make something other than counts of it, such as history.
func (j *Journal) Messages() Messages { return Messages{j} }

// ID is the journal's identity, 16 hex digits: the same on all nodes of a cluster.
func (m Messages) ID() string { return record.JournalText(m.j.store.ID()) }

// Partitions is how many the journal's flushes are of.
func (m Messages) Partitions() int { return m.j.manifest.Partitions }

// Bounds is of tail.Source.
func (m Messages) Bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	return m.j.store.Bounds(ctx)
}

// Read is of tail.Source.
func (m Messages) Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error {
	return m.j.store.Read(ctx, from, last, f)
}

// Get is of tail.Source.
func (m Messages) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	return m.j.store.Get(ctx, sequence)
}

// written is up to when hits are in the journal.
type written struct {
	message uint64
	asOf    time.Time
}

// Written says that all hits that were taken until asOf, on any node, are in the journal up to
// a message. asOf is zero right after Open.
func (m Messages) Written() (message uint64, asOf time.Time) {
	j := m.j
	if j.cfg.clustered() {
		asOf, _ = j.Freshness()
		return j.Followed(), asOf
	}
	if w := j.written.Load(); w != nil {
		return w.message, w.asOf
	}
	return 0, time.Time{}
}

// NewestSnapshots calls f with the newest sound snapshot of each partition, in order, nil where
// there is none.
func (m Messages) NewestSnapshots(ctx context.Context, f func(partition int, snap *record.Snapshot) error) error {
	lists, _, err := m.j.store.ListSnapshots(ctx, m.Partitions())
	if err != nil {
		return fmt.Errorf("journal: list of snapshots: %w", err)
	}
	for partition, list := range lists {
		var newest *record.Snapshot
		for _, at := range list {
			snap, err := m.j.store.GetSnapshot(ctx, at)
			if err == nil {
				newest = &snap
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if err := f(partition, newest); err != nil {
			return err
		}
	}
	return nil
}
