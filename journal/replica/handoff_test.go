package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// A partition whose state is due in the flush that it arrives with is held from that flush on, and its
// state is taken later in the same round: with the flush itself the own hits from before are on
// their way still.
func TestPartitionIsDueAsItArrives(t *testing.T) {
	t.Parallel()
	const partition = 1
	now := time.Unix(1_700_000_000, 0)
	e, err := weir.New(weir.Config{Partitions: 2, Clock: weir.EventClock, Gather: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	log := &soundLog{}
	r := New(e, 1, "n1", true)
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	log.add(r.Hello(now))
	if _, err := r.FollowTo(now, log.len(), log); err != nil {
		t.Fatal(err)
	}
	r.Ready()
	r.Release(partition)
	h, ok := r.BeginHandOff([]int{partition}, make([]*record.Snapshot, 2))
	if !ok {
		t.Fatal("the journal is behind no snapshot")
	}
	if _, err := h.Start(1); err != nil {
		t.Fatal(err)
	}
	if err := h.FollowRest(now, log); err != nil {
		t.Fatal(err)
	}
	held := r.HandedOff(h)[0]
	if err := r.CommitHandOff(h); err != nil {
		t.Fatal(err)
	}
	due := map[int]bool{partition: true}
	f := r.Cut(now, CutOptions{States: due, EvenEmpty: true})
	if !replication.Of(e).Holds(partition) {
		t.Fatal("the flush did not take the partition")
	}
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	log.add(f.Parts)
	if later := r.Later(due, f.Snaps); len(f.Snaps) > 0 || !slices.Equal(later, []int{partition}) {
		t.Errorf("the flush has %d states, and %v are to be taken later", len(f.Snaps), later)
	}
}
