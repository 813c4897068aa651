package replica

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Flushes that are read again, by a start or a hand-off, count the same requests as before, also when clocks differ by minutes. What a
// snapshot lists does so too.
func TestRequestsReadAgain(t *testing.T) {
	id := replication.RequestID{1}
	var s requests
	var resumed requests
	want := []bool{true, true, false, false}
	for round := range 3 {
		to := &s
		if round == 2 {
			resumed.resume(s.list(time.Now()))
			to = &resumed
		}
		for i, after := range []time.Duration{4 * time.Second, 12 * time.Minute, time.Second, 11 * time.Minute} {
			in := seen{of: record.Incarnation{Origin: uint64(i), Epoch: 1}, Head: record.Head{Epoch: 1, Flush: 3}, at: after.Milliseconds()}
			if got := to.note(id, in); got != want[i] {
				t.Errorf("round %d: flush %d counts the request: %v, want %v", round, i, got, want[i])
			}
		}
	}
}

// A snapshot has own hits that another node turns out to count: it is not stored, also if its partition was released meanwhile (seed 93147).
func TestSnapshotWithHitsOfAnotherNode(t *testing.T) {
	e, err := engine.New(engine.Config{Partitions: 16, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, released := range []bool{false, true} {
		h := NewHolding(e)
		h.open[1] = &openSnapshot{}
		if released {
			e.Release(1)
		}
		if err := h.Count(record.Batch{Partition: 1, Seq: 1, Less: []replication.Delta{{Key: "k", At: 1, N: 1}}}, true, true); err != nil {
			t.Fatal(err)
		}
		if !h.open[1].spoiled {
			t.Errorf("released %v: the snapshot counts as sound", released)
		}
	}
}
