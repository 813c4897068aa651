package keyspace

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The table against a Go map, with a hash so poor that buckets spill.
func TestTableAgainstMap(t *testing.T) {
	for _, mask := range []uint64{1<<64 - 1, 0xfe00_0000_0000_0003, 0} {
		hash := func(key string) uint64 {
			h := uint64(14695981039346656037)
			for _, b := range []byte(key) {
				h = (h ^ uint64(b)) * 1099511628211
			}
			return h & mask
		}
		tab, want := newTable(64), map[string]*entry{}
		r := rand.New(rand.NewPCG(1, mask))
		for range 20_000 {
			key := fmt.Sprint(r.IntN(600))
			switch en := want[key]; {
			case en == nil && len(want) < 64*maxLoad:
				en = &entry{key: key}
				tab.insert(hash(key), en)
				want[key] = en
			case en != nil && r.IntN(2) == 0:
				tab.remove(hash(key), en)
				delete(want, key)
			}
			probe := fmt.Sprint(r.IntN(600))
			if got := tab.find(hash(probe), probe); got != want[probe] {
				t.Fatalf("find(%s) = %p, want %p", probe, got, want[probe])
			}
		}
		seen := map[*entry]bool{}
		tab.each(func(en *entry) { seen[en] = true })
		if len(seen) != len(want) {
			t.Errorf("each saw %d entries, want %d", len(seen), len(want))
		}
	}
}
