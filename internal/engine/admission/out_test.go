package admission

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

func newLimit(t *testing.T, elapsed *time.Duration) (*Table, *KeyedLimit) {
	t.Helper()
	wall := &keyspace.Wall{Source: func() time.Time { return time.Unix(2_000_000_000, 0).Add(*elapsed) }}
	table := New(1, 1<<20, true, keyspace.NewClockLimits(wall.Source, func() time.Duration { return *elapsed }, wall))
	l, err := table.LimitIn("n", limit.WhereLeased, "api", limit.Limit{N: 100, Per: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return table, l
}

func changes(table *Table) []replication.Change {
	var c replication.Cut
	table.Cut(0, &c, nil, nil)
	return c.Changes
}

func outs(table *Table) (all []Out) {
	table.Outs(func(int) bool { return true }, func(o Out) { all = append(all, o) })
	return all
}

// What a node has granted is known to those that read its cuts or its states, the last word of it
// alone, for as long as it counts.
func TestOutIsKnown(t *testing.T) {
	t.Parallel()
	elapsed := time.Hour
	holder, l := newLimit(t, &elapsed)
	other, _ := newLimit(t, &elapsed)
	const held = 12 * time.Second
	for _, out := range []uint64{5, 40, 30} {
		l.SetOut("n1", "k", held, out)
	}
	list := changes(holder)
	if said, ok := list[0].(*replication.Outstanding); len(list) != 1 || !ok || said.N != 30 {
		t.Fatalf("cut %+v", list)
	}
	if err := other.ApplyChanges(0, list); err != nil {
		t.Fatal(err)
	}
	for _, table := range []*Table{holder, other} {
		got := outs(table)
		if len(got) != 1 || got[0].Limit != "api" || got[0].Key != "k" || got[0].Holder != "n1" || got[0].N != 30 {
			t.Fatalf("out %+v", got)
		}
		if now := table.Clock.Now(); got[0].Until < now+int64(held) || got[0].Until > now+int64(held/8*9) {
			t.Errorf("until %v from now", time.Duration(got[0].Until-now))
		}
	}
	elapsed += 3 * time.Second
	l.SetOut("n1", "k", held, 0)
	if err := other.ApplyChanges(0, append(changes(holder), list...)); err != nil { // the older one comes again
		t.Fatal(err)
	}
	if got := outs(other); len(got) != 0 {
		t.Errorf("out %+v, though all was settled", got)
	}
}

// What is out is as good as used, and what a node reports counts from when it was used.
func TestDecideBeside(t *testing.T) {
	t.Parallel()
	elapsed := time.Hour
	table, l := newLimit(t, &elapsed)
	ask := func(n, outstanding uint64, take bool) limit.Verdict {
		t.Helper()
		var v [1]limit.Verdict
		if _, _, err := table.DecideAll([]Check{{Limit: l, Key: "k", N: n}}, []uint64{outstanding}, v[:], take); err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	if v := ask(10, 80, true); !v.Allowed || v.Remaining != 10 {
		t.Errorf("%+v", v)
	}
	if v := ask(11, 80, true); v.Allowed || v.Never || v.Remaining != 10 || v.RetryAfter <= 0 {
		t.Errorf("%+v", v)
	}
	if v := ask(1, 500, false); v.Allowed || v.Remaining != 0 || v.RetryAfter <= 0 {
		t.Errorf("%+v", v)
	}
	if v := ask(101, 0, false); !v.Never {
		t.Errorf("%+v", v)
	}
	l.Use("k", table.Clock.Now()-int64(5*time.Second), 80)
	if v := ask(11, 0, false); v.Allowed {
		t.Errorf("%+v", v)
	}
	elapsed += 5*time.Second + 700*time.Millisecond
	if v := ask(80, 0, false); !v.Allowed {
		t.Errorf("what was used is out of the interval: %+v", v)
	}
}
