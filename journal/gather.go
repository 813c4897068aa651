package journal

import (
	"bytes"

	"github.com/weir-counter/weir"
)

// gatherer is the sink of step 2 of a take (take.go).
type gatherer struct {
	of weir.PartitionSet
	by []gathered // partition
}

func (g gatherer) wants(partition int) bool      { return g.of.Has(partition) }
func (g gatherer) receipts([][]byte, bool) error { return nil }

func (g gatherer) count(b batch, _, _ bool) error {
	to := &g.by[b.partition]
	if b.kind == kindAdmissions {
		to.admit(b.admissions())
	} else {
		to.add(b)
	}
	return nil
}

// gathered is what the journal has of one partition, in its order. Hits, the windows of a
// restored backup and clears are steps, since a removal or a clear takes what is before it;
// admissions are apart, since neither touches them.
type gathered struct {
	steps    []step
	admitted []weir.Admission
	entries  int // how many there are; of windows, as many as take their bytes
}

// step is either deltas or a batch of a restored backup. That stays encoded until it is
// applied: windows are several times larger in memory.
type step struct {
	deltas   []weir.Delta
	restored batch
}

// entryBytes is about how much an entry takes.
const entryBytes = 32

// add appends a batch of another kind than admissions.
func (g *gathered) add(b batch) {
	if b.kind == kindHits {
		list := b.deltas()
		g.entries += len(list)
		if last := len(g.steps) - 1; last >= 0 && g.steps[last].deltas != nil {
			g.steps[last].deltas = append(g.steps[last].deltas, list...)
		} else if len(list) > 0 {
			g.steps = append(g.steps, step{deltas: list})
		}
		return
	}
	if b.kind == kindClear {
		g.steps, g.entries = nil, len(g.admitted)
	}
	b.entries = bytes.Clone(b.entries) // else it keeps the whole message in memory
	g.steps = append(g.steps, step{restored: b})
	g.entries += 1 + len(b.entries)/entryBytes
}

// admit appends admissions.
func (g *gathered) admit(list []weir.Admission) {
	g.admitted = append(g.admitted, list...)
	g.entries += len(list)
}

// followed is what was gathered of hits, as the engine takes it.
func (g *gathered) followed() (list []weir.Followed) {
	for i := range g.steps {
		f := weir.Followed{Deltas: g.steps[i].deltas}
		switch b := &g.steps[i].restored; b.kind { // they were checked
		case kindWindows:
			f.Windows, _ = b.windows()
		case kindForgotten:
			f.Forgotten, _ = b.forgotten()
		case kindClear:
			f.Clear = true
		}
		list = append(list, f)
	}
	return list
}
