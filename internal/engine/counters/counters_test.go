package counters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// newTable is one of a node without a journal.
func newTable(bytes int64) *Table {
	t := newNode(new(clock), false)
	t.cfg.Bound = bytes
	return t
}

func key(text string) []byte { return []byte(text) }

// A fixed window: INCR, and EXPIRE at the first.
func TestWindow(t *testing.T) {
	v := newTable(1 << 20).View()
	for n := int64(1); n <= 3; n++ {
		if got, err := v.Add(1000, key("a"), 1); got != n || err != nil {
			t.Fatal(got, err)
		}
		v.Expire(1000, key("a"), 2000, Absent)
	}
	if c, ok := v.Get(1999, key("a")); !ok || c != (Counter{Value: 3, Expires: 2000}) {
		t.Error(c, ok)
	}
	if got, _ := v.Add(2000, key("a"), 1); got != 1 {
		t.Errorf("%d after it expired", got)
	}
	if c, _ := v.Get(2000, key("a")); c.Expires != 0 {
		t.Error("a new counter expires like the old one")
	}
}

func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		have, at int64
		only     Condition
		want     bool
	}{
		{0, 50, Absent, true}, {40, 50, Absent, false},
		{0, 50, Present, false}, {40, 50, Present, true},
		{40, 50, Later, true}, {50, 50, Later, false}, {0, 50, Later, false},
		{60, 50, Earlier, true}, {50, 50, Earlier, false}, {0, 50, Earlier, true},
	} {
		v := newTable(1 << 20).View()
		_, _, _, _ = v.Set(1, key("a"), Setting{Counter: Counter{Value: 1, Expires: tc.have}})
		if got := v.Expire(1, key("a"), tc.at, tc.only); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// A full table refuses new keys, keeps those it has, and takes others when these expire.
func TestFull(t *testing.T) {
	const space = 500
	table := newTable(space * (entryBytes + 4))
	v := table.View()
	refused := 0
	for i := range 2 * space {
		k := fmt.Appendf(nil, "%04d", i)
		switch _, err := v.Add(1, k, 1); {
		case errors.Is(err, ErrFull):
			refused++
		case err != nil:
			t.Fatal(err)
		}
		v.Expire(1, k, 5000, Always)
	}
	st := table.Stats()
	if refused != space || st.Keys != space || st.Bytes > st.Bound || st.Refused != space {
		t.Fatalf("%d refused, %+v", refused, st)
	}
	if _, err := v.Add(2, key("0000"), 1); err != nil {
		t.Errorf("a key that is there: %v", err)
	}
	for i := range space {
		if _, err := v.Add(5000, fmt.Appendf(nil, "b%03d", i), 1); err != nil {
			t.Fatalf("after all expired: %v", err)
		}
	}
	if st := table.Stats(); st.Bytes > st.Bound {
		t.Errorf("%+v", st)
	}
}

// Keys that come and go leave no memory behind, without a table that is full.
func TestExpiredCountersGo(t *testing.T) {
	table := newTable(1 << 30)
	v := table.View()
	for i := range int64(200_000) {
		k := fmt.Appendf(nil, "user:%d", i)
		_, _ = v.Add(i, k, 1)
		v.Expire(i, k, i+1000, Always)
	}
	if st := table.Stats(); st.Keys > 4000 {
		t.Errorf("%d keys are there, of which 1000 have not expired", st.Keys)
	}
}

// A table does what a map does, one operation after the other.
func TestAgainstAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := newTable(1 << 20).View()
	model := map[string]Counter{}
	for now := int64(1); now < 50_000; now++ {
		name := fmt.Sprint("k", rng.IntN(50))
		k := key(name)
		if m, ok := model[name]; ok && m.Expires != 0 && m.Expires <= now {
			delete(model, name)
		}
		m, there := model[name]
		switch rng.IntN(6) {
		case 0, 1:
			m.Value += 2
			model[name] = m
			if got, _ := v.Add(now, k, 2); got != m.Value {
				t.Fatalf("at %d: %d, want %d", now, got, m.Value)
			}
		case 2:
			at := now + rng.Int64N(100)
			if got := v.Expire(now, k, at, Always); got != there {
				t.Fatal(now, got)
			}
			if m.Expires = at; there {
				model[name] = m
			}
		case 3:
			if got := v.Remove(now, k); got != there {
				t.Fatal(now, got)
			}
			delete(model, name)
		case 4:
			if got, ok := v.Get(now, k); ok != there || got != m {
				t.Fatalf("at %d: %+v, want %+v", now, got, m)
			}
		case 5:
			_, existed, _, _ := v.Set(now, k, Setting{Counter: Counter{Value: now}, Keep: true})
			if existed != there {
				t.Fatal(now, existed)
			}
			model[name] = Counter{Value: now, Expires: m.Expires}
		}
	}
}

// What Hold makes one step is one step for others.
func TestHold(t *testing.T) {
	table := newTable(1 << 20)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			v := table.View()
			for range 2000 {
				v.Hold(v.ShardOf(key("a")) | v.ShardOf(key("b")))
				a, _ := v.Add(1, key("a"), 1)
				b, _ := v.Add(1, key("b"), 1)
				v.Release()
				if a != b {
					t.Errorf("a %d, b %d", a, b)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestCountersNothingIsAllocated(t *testing.T) {
	v := newTable(1 << 20).View()
	k := key("user:42")
	if n := testing.AllocsPerRun(100, func() { _, _ = v.Add(1, k, 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The table knows how many counters expire, whatever changed that.
func TestExpiring(t *testing.T) {
	table := newTable(1 << 20)
	v, now := table.View(), int64(1000)
	want := func(step string, keys, expiring int64) {
		t.Helper()
		if s := table.Stats(); s.Keys != keys || s.Expiring != expiring {
			t.Errorf("%s: %d keys, %d expire; want %d, %d", step, s.Keys, s.Expiring, keys, expiring)
		}
	}
	set := func(name string, to Setting) {
		t.Helper()
		if _, _, _, err := v.Set(now, key(name), to); err != nil {
			t.Fatal(err)
		}
	}
	set("a", Setting{Counter: Counter{Value: 1, Expires: 2000}})
	set("b", Setting{Counter: Counter{Value: 1, Expires: 0}})
	want("set", 2, 1)
	set("a", Setting{Counter: Counter{Value: 2, Expires: 3000}})
	want("set again", 2, 1)
	set("a", Setting{Counter: Counter{Value: 2, Expires: 0}, Keep: true})
	want("kept", 2, 1)
	v.Expire(now, key("b"), 2000, Always)
	want("expire", 2, 2)
	v.Expire(now, key("a"), 0, Always)
	want("persist", 2, 1)
	set("c", Setting{Counter: Counter{Value: 1, Expires: 4000}})
	want("set a third", 3, 2)
	v.Remove(now, key("c"))
	want("remove", 2, 1)
	v.Expire(now, key("a"), 500, Always)
	want("expire at once", 1, 1)
	v.Get(2000, key("b"))
	want("expired", 0, 0)
}

// Memory of logs is counted as they grow, shrink and go.
func TestLogMemory(t *testing.T) {
	t.Parallel()
	table := newTable(1 << 20)
	v := table.View()
	for n := range 300 {
		times := make([]float64, n*37%1000)
		for i := range times {
			times[i] = float64(i)
		}
		if err := v.SetLog(1, key("a"), times, 2); err != nil {
			t.Fatal(err)
		}
		c, ok := v.Get(1, key("a"))
		bytes := int64(0)
		if ok {
			bytes = entryBytes + 1 + c.Log.bytes()
		}
		if ok != (len(times) > 0) || len(c.Log.From(0)) != len(times) || table.Stats().Bytes != bytes || cap(times) > 0 && cap(c.Log.times) > 5*len(times)+16 {
			t.Fatalf("%d times: %v %d, %+v", len(times), ok, len(c.Log.From(0)), table.Stats())
		}
	}
	if v.Get(2, key("a")); table.Stats().Bytes != 0 {
		t.Errorf("after it expired: %+v", table.Stats())
	}
}
