package shadow

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A demand against a list of all its requests.
func TestDemand(t *testing.T) {
	type entry struct {
		at int64
		n  uint64
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		reach := reach{recent: r.Int64N(30), most: 1 + r.Uint64N(60)}
		reach.memory = 2*reach.recent + 1
		var d demand
		var all []entry
		var over bool
		at := int64(testStart)
		for range 300 {
			if r.IntN(3) > 0 {
				at += r.Int64N(int64(1) << r.IntN(8))
			}
			n := 1 + r.Uint64N(3)
			d.add(at, n, &reach)
			if last := len(all) - 1; last >= 0 && all[last].at == at {
				all[last].n += n
			} else {
				all = append(all, entry{at, n})
			}
			var recent, remembered uint64
			for _, e := range all {
				if e.at >= at-reach.recent {
					recent += e.n
				}
				if e.at >= at-reach.memory {
					remembered += e.n
				}
			}
			if d.recent.sum != recent || d.peak < recent {
				t.Fatalf("seed %d at %d: recent %d, peak %d, want %d", seed, at, d.recent.sum, d.peak, recent)
			}
			if over = over || remembered > reach.most; over && !d.whole {
				t.Fatalf("seed %d at %d: %d requests are remembered, more than %d, and not all is kept", seed, at, remembered, reach.most)
			}
			var kept []entry
			var sum uint64
			d.each(func(at int64, n uint64) bool {
				kept, sum = append(kept, entry{at, n}), sum+n
				return true
			})
			if len(kept) > len(all) || !slices.Equal(kept, all[len(all)-len(kept):]) || sum != d.kept.sum {
				t.Fatalf("seed %d at %d: kept %v of %v", seed, at, kept, all)
			}
			if sum < remembered {
				t.Fatalf("seed %d at %d: %d are kept, %d are remembered", seed, at, sum, remembered)
			}
		}
		before := d.recent.sum
		d.drop()
		if d.kept.sum != before || d.recent.sum != before || d.whole {
			t.Fatalf("seed %d: after drop %+v", seed, d)
		}
	}
}

// Buckets of any span hold all that was added, each in its own.
func TestTimeline(t *testing.T) {
	for _, step := range []int64{1, 7, 59, 3600, 86_401, 700_000, 90_000_000} {
		line := newTimeline(testStart)
		var all []int64
		for at := int64(testStart); at < testStart+300*step; at += step {
			line.add(at, 2)
			all = append(all, at)
		}
		want := make([]uint64, len(line.buckets))
		for _, at := range all {
			want[at/line.width-line.first] += 2
		}
		if len(want) > timelineMost || len(want) < timelineMost/7 || !slices.Equal(want, line.buckets) {
			t.Errorf("step %d: %d buckets of %d s: %v, want %v", step, len(want), line.width, line.buckets, want)
		}
	}
}
