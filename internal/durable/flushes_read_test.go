package durable

import (
	"fmt"
	"testing"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// addUp reads the journal's flushes from where t stands, and adds their hits to sums.
func addUp(r *running, t *replica.TailFlushes, sums map[string]uint64) {
	r.t.Helper()
	upTo, _, _, err := r.j.Moment(r.t.Context())
	if err == nil {
		err = r.j.ReadFlushes(r.t.Context(), t, upTo, func(flush []record.Part) error {
			for _, p := range flush {
				for _, b := range p.Batches {
					for _, d := range b.Deltas() {
						sums[d.Key] += d.N
					}
				}
			}
			return nil
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if t.Lost() > 0 {
		r.t.Errorf("%d parts are lost", t.Lost())
	}
}

// Who reads on from a position gets what came since, whichever node of a cluster reads.
func TestFlushesAreReadOnce(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			var all []*running
			if nodes == 1 {
				all = []*running{start(t, testConfig(t, t.TempDir()))}
				t.Cleanup(all[0].close)
			} else {
				c := newCluster(t, nodes)
				c.start()
				all = c.nodes
			}
			sums, want, at := map[string]uint64{}, map[string]uint64{}, replica.FlushPosition{}
			for round := range 4 {
				for i, r := range all {
					key := fmt.Sprint("key", i)
					r.hit(key, 1_000_000+int64(round), uint64(10+i))
					want[key] += uint64(10 + i)
					r.sync()
				}
				reader := all[round%len(all)]
				if len(all) > 1 {
					if err := reader.j.CatchUp(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				tl := replica.NewTailFlushes(at)
				addUp(reader, tl, sums)
				at = tl.Position()
			}
			if fmt.Sprint(sums) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", sums, want)
			}
		})
	}
}
