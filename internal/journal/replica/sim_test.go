package replica

import (
	"flag"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-counter/weir/internal/concurrency"
)

var (
	simSeeds = flag.Int("sim.seeds", 120, "how many simulations TestSimulation runs")
	simFirst = flag.Uint64("sim.first", 0, "seed of the first one")
	simTrace = flag.String("sim.trace", "", "file for the trace of the first one")
)

// TestSimulation runs the code that cuts, applies, repairs and snapshots in a world
// of one seed each, that fails in all ways at once. Once it is healed, all nodes
// give equal counts: those of all flushes that the journal took, each once, which
// has all that was acknowledged. What can't be had any more is named.
func TestSimulation(t *testing.T) {
	var failed atomic.Int64
	all := newSimTally()
	if err := concurrency.Do(*simSeeds, func(i int) error {
		if failed.Load() < 3 && !simulate(t, *simFirst+uint64(i), all) {
			failed.Add(1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all.report(t)
}

// Seeds that have found a fault stay.
func TestSimulationSeeds(t *testing.T) {
	for _, seed := range []uint64{8, 10, 18, 37, 50, 67, 71, 252, 309, 700, 728, 3305, 3907, 6051, 780, 841, 871, 926, 2097, 2211, 4334, 11000, 12705, 12959, 51318, 54251, 59471, 66809, 90024, 90070, 91064, 91935, 93147, 96207} {
		simulate(t, seed, newSimTally())
	}
}

// A seed is the same run each time.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(8) {
		var sums [2]uint64
		for i := range sums {
			c := newSimCluster(t, seed)
			c.play()
			c.end()
			sums[i] = c.w.Sum()
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

func simulate(t *testing.T, seed uint64, all *simTally) bool {
	return simulateOf(t, seed, "TestSimulation$", all, func(*simCluster) {})
}

func simulateOf(t *testing.T, seed uint64, test string, all *simTally, change func(*simCluster)) bool {
	c := newSimCluster(t, seed)
	defer c.end()
	if change(c); c.max == 0 && test != "TestSimulation$" {
		return true
	}
	c.play()
	c.check()
	all.add(c.tally)
	if len(c.failures) == 0 && (*simTrace == "" || seed != *simFirst) {
		return true
	}
	trace := strings.Join(c.w.Trace(), "\n")
	if *simTrace != "" {
		if err := os.WriteFile(*simTrace, []byte(trace+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if len(c.failures) > 0 {
		t.Errorf("seed %d, %d nodes: %s\nrun it again: go test ./journal/replica -run '%s' -sim.seeds 1 -sim.first %d -sim.trace /tmp/trace",
			seed, len(c.nodes), strings.Join(c.failures, "\n  "), test, seed)
	}
	return len(c.failures) == 0
}

func (c *simCluster) end() {
	for _, stop := range c.takes {
		stop()
	}
	for _, n := range c.nodes {
		n.close()
	}
}
