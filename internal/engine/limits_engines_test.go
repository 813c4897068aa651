package engine

import (
	"sync/atomic"
	"testing"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// journaled is engines with limits that follow each other, each made from what the one before left in a journal: a state now
// and then, and the admissions since.
type journaled struct {
	t     *testing.T
	e     *Engine // the newest
	cfg   Config
	state []byte
	since []replication.Change
	cut   replication.Cut // the newest
}

func newJournaled(t *testing.T) (*journaled, *atomic.Int64) {
	t.Helper()
	e, now := limitEngine(t, Config{Partitions: 1, Gather: true})
	return &journaled{t: t, e: e, cfg: Config{Partitions: 1, Gather: true, Now: e.Config().Now}}, now
}

// changesOf is what a cut has of limits, as a journal has it.
func changesOf(t *testing.T, c *replication.Cut) (list []replication.Change) {
	t.Helper()
	var b []byte
	for _, one := range c.Changes {
		b = replication.AppendChange(b, one)
	}
	for i := range c.Admissions {
		b = replication.AppendChange(b, &c.Admissions[i])
	}
	r := wire.NewReader(b)
	for r.Len() > 0 {
		list = append(list, replication.ReadChange(r))
	}
	if r.Failed() {
		t.Fatalf("%x is not read as it was written", b)
	}
	return list
}

// flush writes what is new to the journal, or the state.
func (j *journaled) flush(withState bool) {
	j.e.Cut(0, &j.cut, withState)
	if j.since = append(j.since, changesOf(j.t, &j.cut)...); withState {
		j.state, j.since = append([]byte(nil), j.cut.State...), nil
	}
}

// restarted is the engine that kill -9 leaves.
func (j *journaled) restarted() *Engine {
	j.t.Helper()
	next := newTestEngine(j.t, j.cfg)
	if j.state != nil {
		if err := next.LoadState(0, j.state, 0); err != nil {
			j.t.Fatal(err)
		}
	}
	if err := next.ApplyChanges(0, j.since); err != nil {
		j.t.Fatal(err)
	}
	return next
}

// live does what a number of 0 to 39 says, nothing mostly, and tells whether e is another engine now.
func (j *journaled) live(number int) (restarted bool) {
	j.t.Helper()
	switch number {
	case 0, 1, 2:
		j.flush(false)
	case 3:
		j.flush(true)
	case 4:
		j.flush(false)
		j.e = j.restarted()
		return true
	}
	return false
}
