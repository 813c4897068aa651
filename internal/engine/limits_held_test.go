package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// What keys have used of limits is kept whether their partition is held or not.
func TestLimitsOfPartitionsThatAreNotHeld(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	e, err := New(Config{Partitions: 1, Gather: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	wheres := []limit.Where{limit.WhereLeased, limit.WhereNode, limit.WhereStrict}
	var limits []*KeyedLimit
	for _, where := range wheres {
		l, err := e.Limits().LimitIn("n1", where, "of-"+where.String(), Limit{N: 100, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
		l.AllowN("k", 10)
	}
	want := func(what string, want uint64) {
		t.Helper()
		for i, l := range limits {
			if v, err := l.Peek("k", 0); err != nil || v.Remaining != want {
				t.Errorf("%s: %d left of %v, %v, want %d", what, v.Remaining, wheres[i], err, want)
			}
		}
	}
	var c replication.Cut
	e.Cut(0, &c, true)
	state := append([]byte(nil), c.State...)

	e.Release(0)
	want("released", 90)
	var followed []replication.Admission
	for _, l := range limits {
		followed = append(followed, replication.Admission{Limit: l.Record(), Key: "k", At: now.UnixMilli(), N: 5})
		l.AllowN("k", 7)
	}
	if err := e.Limits().ApplyAdmissions(0, followed); err != nil {
		t.Fatal(err)
	}
	want("not held", 78)
	if err := hold(e, 0, state, nil); err != nil {
		t.Fatal(err)
	}
	want("held again", 78)
	if s := e.Stats(); s.LimitStates != 3 || s.LimitBytes <= 0 {
		t.Errorf("%d states, %d bytes", s.LimitStates, s.LimitBytes)
	}
}
