package weir

import (
	"testing"
	"time"
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
	limits := map[Where]*KeyedLimit{}
	for _, where := range []Where{WhereShared, WhereNode, WhereStrict} {
		l, err := e.Replication().LimitIn("n1", where, "of-"+where.String(), Limit{N: 100, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		limits[where] = l
		l.AllowN("k", 10)
	}
	left := func(where Where) uint64 {
		v, err := limits[where].Peek("k", 0)
		if err != nil {
			t.Fatal(err)
		}
		return v.Remaining
	}
	var c Cut
	e.Replication().Cut(0, &c, true)
	state := append([]byte(nil), c.State...)
	shared := limits[WhereShared].Record()

	e.Replication().Release(0)
	for where, want := range map[Where]uint64{WhereShared: 100, WhereNode: 90, WhereStrict: 90} {
		if got := left(where); got != want {
			t.Errorf("released: %d left of %v, want %d", got, where, want)
		}
	}
	// Others admit, and this node too while it can ask nobody.
	ms := now.UnixMilli()
	if err := e.Replication().FollowAdmissions(0, []Admission{{shared, "k", ms, 5}, {limits[WhereStrict].Record(), "k", ms, 5}}); err != nil {
		t.Fatal(err)
	}
	limits[WhereShared].AllowN("k", 7)
	if got := [2]uint64{left(WhereShared), left(WhereStrict)}; got != [2]uint64{93, 85} {
		t.Errorf("not held: %d left, want 93 and 85", got)
	}

	e.Replication().Cut(0, &c, false) // has the 7
	limits[WhereShared].AllowN("k", 2)
	if err := e.Replication().Hold(0, state, nil, []Admission{{shared, "k", ms, 5}}); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[Where]uint64{WhereShared: 100 - 10 - 5 - 2, WhereNode: 90, WhereStrict: 85} {
		if got := left(where); got != want {
			t.Errorf("held again: %d left of %v, want %d", got, where, want)
		}
	}
	if err := e.Replication().ApplyShared(0, c.Admissions); err != nil { // the 7 come back from the journal
		t.Fatal(err)
	}
	if got := left(WhereShared); got != 76 {
		t.Errorf("all told %d left, want 76", got)
	}
	if s := e.Stats(); s.LimitStates != 3 || s.LimitBytes <= 0 {
		t.Errorf("%d states, %d bytes", s.LimitStates, s.LimitBytes)
	}
}
