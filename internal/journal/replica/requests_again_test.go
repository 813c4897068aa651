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
			in := seen{incarnation: record.Incarnation{Origin: uint64(i), Epoch: 1}, Head: record.Head{Epoch: 1, Flush: 3}, at: after.Milliseconds()}
			if got := to.note(id, in); got != want[i] {
				t.Errorf("round %d: flush %d counts the request: %v, want %v", round, i, got, want[i])
			}
		}
	}
}

// Moves that are read again count as before, however often their node was started in between, until the journal is trimmed behind them;
// late ones of others do not.
func TestMovesReadAgain(t *testing.T) {
	topic, lives := replication.RequestID{1}, uint64(2*manyRuns)
	var s requests
	move := func(origin, epoch, flush, from uint64) bool {
		r := replication.Request{ID: topic, Move: replication.Move{From: replication.Position{Offset: from}, To: replication.Position{Offset: from + 1}}}
		return s.move(r, &record.Part{Incarnation: record.Incarnation{Origin: origin, Epoch: epoch}, Flush: flush})
	}
	for round := range 3 {
		for epoch := uint64(1); epoch <= lives; epoch++ {
			if !move(1, epoch, 7, epoch) {
				t.Fatalf("round %d: the move of epoch %d does not count", round, epoch)
			}
		}
		if round == 1 {
			var resumed requests
			resumed.resume(s.list(time.Now()))
			s = resumed
		}
		if many := s.trimmed(1, lives); many != (round < 2) { // it is said once, and again after a start
			t.Errorf("round %d: many: %v", round, many)
		}
	}
	for _, first := range []uint64{lives + waitMost, lives + waitMost + 1} {
		s.trimmed(first, lives+waitMost)
		if n, want := len(s.moved[topic]), map[bool]int{true: int(lives), false: 2}[first == lives+waitMost]; n != want {
			t.Errorf("a journal that begins with %d: %d runs, want %d", first, n, want)
		}
	}
	for _, late := range [][4]uint64{{2, 1, 7, 1}, {1, lives, 8, 1}, {1, lives + 1, 1, lives - 1}, {1, 5, 7, 5}} {
		if move(late[0], late[1], late[2], late[3]) {
			t.Errorf("a late move counts: %v", late)
		}
	}
	if !move(2, 1, 8, lives+1) || s.moved[topic][0].incarnation.Epoch != 1 {
		t.Error("the move of another node from the position on does not count, or it is not known who began")
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
