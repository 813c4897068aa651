package replica

import (
	"bytes"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// gatherer is the sink of step 2 of a take (handoff.go).
type gatherer struct {
	of  replication.PartitionSet
	by  []gathered                         // partition
	set func(message uint64) time.Duration // Holding.Set
}

func (g gatherer) Wants(partition int) bool              { return g.of.Has(partition) }
func (g gatherer) Receipts([][]byte, uint64, bool) error { return nil }

func (g gatherer) Count(b record.Batch, _, _ bool) error {
	to := &g.by[b.Partition]
	switch b.Kind {
	case record.KindAdmissions:
		to.admit(b.Admissions(), func() time.Duration { return g.set(b.Message) })
	case record.KindPast: // in no window
	default:
		to.add(b)
	}
	return nil
}

// gathered is what the journal has of one partition, in its order. Hits, the windows of a
// restored backup and clears are steps, since a removal or a clear takes what is before it;
// admissions are apart, since neither touches them.
type gathered struct {
	steps    []step
	admitted []told
	entries  int // how many there are; of windows, as many as take their bytes
}

// step is either deltas or a batch of a restored backup. That stays encoded until it is
// applied: windows are several times larger in memory.
type step struct {
	deltas   []replication.Delta
	restored record.Batch
}

// entryBytes is about how much an entry takes.
const entryBytes = 32

// add appends a batch of another kind than admissions.
func (g *gathered) add(b record.Batch) {
	if b.Kind == record.KindHits {
		list := b.Deltas()
		g.entries += len(list)
		if last := len(g.steps) - 1; last >= 0 && g.steps[last].deltas != nil {
			g.steps[last].deltas = append(g.steps[last].deltas, list...)
		} else if len(list) > 0 {
			g.steps = append(g.steps, step{deltas: list})
		}
		return
	}
	if b.Kind == record.KindClear {
		g.steps, g.entries = nil, 0
		for _, a := range g.admitted {
			g.entries += len(a.list)
		}
	}
	b.Entries = bytes.Clone(b.Entries) // else it keeps the whole message in memory
	g.steps = append(g.steps, step{restored: b})
	g.entries += 1 + len(b.Entries)/entryBytes
}

// told are admissions at times by a clock that may be set before they are counted: set is by how
// much it was since, when it is asked.
type told struct {
	list []replication.Admission
	set  func() time.Duration
}

// admit appends admissions.
func (g *gathered) admit(list []replication.Admission, set func() time.Duration) {
	g.admitted = append(g.admitted, told{list, set})
	g.entries += len(list)
}

// admissions are those that were gathered, by the clock as it is now. It is asked once.
func (g *gathered) admissions() (list []replication.Admission) {
	for _, a := range g.admitted {
		list = append(list, moved(a.list, a.set())...)
	}
	return list
}

// followed is what was gathered of hits, as the engine takes it.
func (g *gathered) followed() (list []replication.Followed) {
	for i := range g.steps {
		f := replication.Followed{Deltas: g.steps[i].deltas}
		switch b := &g.steps[i].restored; b.Kind { // they were checked
		case record.KindWindows:
			f.Windows, _ = b.Windows()
		case record.KindEvicted:
			f.Evicted, _ = b.Evicted()
		case record.KindClear:
			f.Clear = true
		}
		list = append(list, f)
	}
	return list
}
