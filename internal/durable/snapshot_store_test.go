package durable

import (
	"testing"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Of two nodes that take snapshots at once, each slot gets one's, as a whole: who
// does not know what is in a slot does not write over it.
func TestTwoTakersOfSnapshots(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t, t.TempDir()))
	r.hit("k", 1_000_000, 1)
	r.sync()
	s := r.j.store
	snap := func(from uint64, state string) record.Snapshot {
		return record.Snapshot{Incarnation: r.j.own, Partition: 3, From: from, State: []byte(state)}
	}
	first, err := s.PutSnapshot(t.Context(), snap(10, "first"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.PutSnapshot(t.Context(), snap(20, "second"), 0, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutSnapshot(t.Context(), snap(15, "slow"), 0, first); err == nil {
		t.Error("wrote over a snapshot that it did not know")
	}
	if _, err := s.PutSnapshot(t.Context(), snap(5, "other slot"), 1, 0); err != nil {
		t.Fatal(err)
	}
	lists, findings, err := s.ListSnapshots(t.Context(), 4)
	if err != nil || len(findings) > 0 || len(lists[3]) != 2 || lists[3][0].Sequence != second {
		t.Fatalf("%+v, %v, %v", lists, findings, err)
	}
	for i, want := range []string{"second", "other slot"} {
		if got, err := s.GetSnapshot(t.Context(), lists[3][i]); err != nil || string(got.State) != want {
			t.Errorf("slot has %q, %v: want %q", got.State, err, want)
		}
	}
}
