package weir

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// What is kept of limits where a partition is not held: strict ones and those of one
// node. Shared ones come back with it, and what was admitted meanwhile.
func TestLimitsOfPartitionsThatAreNotHeld(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	e, err := New(Config{Partitions: 1, Gather: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	limits := map[limit.Where]*KeyedLimit{}
	for _, where := range []limit.Where{limit.WhereShared, limit.WhereNode, limit.WhereStrict} {
		l, err := e.side.LimitIn("n1", where, "of-"+where.String(), Limit{N: 100, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		limits[where] = l
		l.AllowN("k", 10)
	}
	left := func(where limit.Where) uint64 {
		v, err := limits[where].Peek("k", 0)
		if err != nil {
			t.Fatal(err)
		}
		return v.Remaining
	}
	var c replication.Cut
	e.side.Cut(0, &c, true)
	state := append([]byte(nil), c.State...)
	shared := (*limitSide)(limits[limit.WhereShared]).Record()

	e.side.Release(0)
	for where, want := range map[limit.Where]uint64{limit.WhereShared: 100, limit.WhereNode: 90, limit.WhereStrict: 90} {
		if got := left(where); got != want {
			t.Errorf("released: %d left of %v, want %d", got, where, want)
		}
	}
	// Others admit, and this node too while it can ask nobody.
	ms := now.UnixMilli()
	if err := e.side.FollowAdmissions(0, []replication.Admission{{Limit: shared, Key: "k", At: ms, N: 5}, {Limit: (*limitSide)(limits[limit.WhereStrict]).Record(), Key: "k", At: ms, N: 5}}); err != nil {
		t.Fatal(err)
	}
	limits[limit.WhereShared].AllowN("k", 7)
	if got := [2]uint64{left(limit.WhereShared), left(limit.WhereStrict)}; got != [2]uint64{93, 85} {
		t.Errorf("not held: %d left, want 93 and 85", got)
	}

	e.side.Cut(0, &c, false) // has the 7
	limits[limit.WhereShared].AllowN("k", 2)
	if err := e.side.Hold(0, state, nil, []replication.Admission{{Limit: shared, Key: "k", At: ms, N: 5}}); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[limit.Where]uint64{limit.WhereShared: 100 - 10 - 5 - 2, limit.WhereNode: 90, limit.WhereStrict: 85} {
		if got := left(where); got != want {
			t.Errorf("held again: %d left of %v, want %d", got, where, want)
		}
	}
	if err := e.side.ApplyShared(0, c.Admissions); err != nil { // the 7 come back from the journal
		t.Fatal(err)
	}
	if got := left(limit.WhereShared); got != 76 {
		t.Errorf("all told %d left, want 76", got)
	}
	if s := e.Stats(); s.LimitStates != 3 || s.LimitBytes <= 0 {
		t.Errorf("%d states, %d bytes", s.LimitStates, s.LimitBytes)
	}
}
