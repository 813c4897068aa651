package region

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
)

var (
	simSeeds = flag.Int("sim.seeds", 60, "how many simulations TestSimulation runs")
	simFirst = flag.Uint64("sim.first", 0, "seed of the first one")
)

// TestSimulation runs the code that digests, appends, feeds and accepts in a world of one seed each: links that lose what is on its way, repeat, delay and
// are cut; owners that crash between two appends, or believe that they are it while another is, appends whose answer is lost; journals
// that are trimmed, and disks that are lost. Once it is healed, all nodes of all regions have the same windows of each, to the byte: those of
// its journal.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var failed, done atomic.Int64
	var all simTally
	seeds := slices.Clone(simHard)
	for i := range *simSeeds {
		seeds = append(seeds, *simFirst+uint64(i))
	}
	if err := concurrency.Do(len(seeds), func(i int) error {
		if failed.Load() < 3 && !simulate(t, seeds[i], &all) {
			failed.Add(1)
		}
		if n := done.Add(1); n%1000 == 0 {
			t.Logf("%d of %d seeds", n, len(seeds))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d simulations: %d appends, %d refused, %d answers lost, %d crashes, %d cuts, %d epochs, %d bases, %d disks lost", len(seeds),
		all.appends.Load(), all.refused.Load(), all.lost.Load(), all.crashes.Load(), all.cuts.Load(), all.epochs.Load(), all.bases.Load(), all.disks.Load())
}

// simHard are seeds that failed once: two regions passed half a base of a third to and fro, and pieces of two bases of the same
// digest were taken for one base.
var simHard = []uint64{920, 1277, 1323, 29724}

type simTally struct{ appends, refused, lost, crashes, cuts, epochs, bases, disks atomic.Int64 }

const (
	simPartitions = 2
	simKeys       = 6
)

var simNow = time.Unix(1_000_000, 0)

// simEngine is the configuration of all engines.
func simEngine() engine.Config {
	return engine.Config{
		Partitions: simPartitions, Memory: simPartitions * 64 << 10, LimitMemory: 64 << 10, OnceMemory: 64 << 10, Retention: time.Hour, Gather: true,
		Now: func() time.Time { return simNow },
	}
}

func simulate(t *testing.T, seed uint64, tally *simTally) bool {
	w := &simWorld{t: t, rng: rand.New(rand.NewPCG(seed, 3)), harm: true, tally: tally, clock: simNow, pieces: []int{50, PieceBytes, PieceBytes, PieceBytes}[seed%4]}
	w.nameKeys()
	w.build(2+w.rng.IntN(3), w.rng.IntN(simMesh+1))
	for range 150 + w.rng.IntN(150) {
		w.step()
	}
	w.harm = false
	for _, r := range w.regions {
		r.journal.complete()
	}
	for range 12 { // rounds that reach from one end of the links to the other
		w.clock = w.clock.Add(time.Minute)
		for i := range w.regions {
			w.act(i)
			w.drain(i)
		}
	}
	return w.check(seed)
}
