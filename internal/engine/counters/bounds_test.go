package counters

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// Counters that nobody asks for again leave a node that only follows, too.
func TestFollowerSweeps(t *testing.T) {
	var c clock = 1_000_000_000
	table := newNode(&c, true)
	most := int64(0)
	for i := range 200_000 {
		c += clock(time.Millisecond)
		one := &replication.Counter{Token: 5, Value: 1, For: 1000}
		one.Key, one.At = fmt.Sprint("k", i), table.Now()
		table.Apply([]replication.Change{one}, false)
		most = max(most, table.Stats().Keys)
	}
	if most > 5000 {
		t.Errorf("%d counters were kept, and 1000 had not expired", most)
	}
	table.sweepAll()
	if st := table.Stats(); st.Keys > 1000 || st.Bytes > st.Keys*(entryBytes+10) {
		t.Errorf("%+v", st)
	}
}

func (t *Table) sweepAll() {
	for i := range t.shards {
		t.sweep(&t.shards[i], t.Now(), math.MaxInt)
	}
}

// A counter that is removed and made again costs one record a cut, and its memory counts until then.
func TestRemovedAndMadeAgain(t *testing.T) {
	for _, token := range []uint64{0, 5} {
		var c clock = 1_000_000_000
		table := newNode(&c, true)
		table.Lead(token)
		v := table.View()
		for range 1000 {
			_, _ = v.Add(1, key("a"), 1)
			v.Remove(1, key("a"))
		}
		if st := table.Stats(); st.Keys != 0 || st.Bytes != entryBytes+1 {
			t.Errorf("%+v", st)
		}
		if list := cut(t, table, 0).changes; len(list) != 1 || !list[0].(*replication.Counter).Gone {
			t.Errorf("%d records", len(list))
		}
		if st := table.Stats(); st.Bytes != 0 {
			t.Errorf("%+v after the cut", st)
		}
		_, _ = v.Add(1, key("a"), 1)
		v.Remove(1, key("a"))
		_, _ = v.Add(1, key("a"), 7)
		if list := cut(t, table, 0).changes; len(list) != 1 || list[0].(*replication.Counter).Value != 7 {
			t.Errorf("%v", list)
		}
		if st := table.Stats(); st.Keys != 1 || st.Bytes != entryBytes+1 {
			t.Errorf("%+v", st)
		}
		v.Remove(1, key("a"))
		table.Lead(token + 2)
		for i := range table.cfg.Bound {
			if _, err := v.Add(1, fmt.Append(nil, i), 1); errors.Is(err, ErrFull) {
				break
			}
			v.Remove(1, fmt.Append(nil, i))
		}
		if n := len(cut(t, table, 0).changes); n == 0 || int64(n) > table.cfg.Bound/entryBytes {
			t.Errorf("%d records, the memory is bounded", n)
		}
	}
}

// An expiry time at the end of time is no time in the past.
func TestExpiresLate(t *testing.T) {
	var c clock = 5_000_000_000
	table := newNode(&c, true)
	v := table.View()
	_, _, _, _ = v.Set(table.Now(), key("a"), Setting{Counter: Counter{Value: 1, Expires: math.MaxInt64 - 1}})
	list := again(t, cut(t, table, 0).changes)
	c += 7_000_000_000
	next := newNode(&c, true)
	next.cfg.Ahead = func() int64 { return -4_000_000_000 }
	next.Apply(list, false)
	if got := next.all(next.Now())["a"]; got.Value != 1 || got.Expires < math.MaxInt64-10_000 {
		t.Errorf("%+v", got)
	}
}
