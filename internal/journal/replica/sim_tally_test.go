package replica

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// simTally counts what simulations checked, and what they did not, on which grounds: a
// check that is passed over too often shows little.
type simTally struct {
	mu      sync.Mutex
	runs    int
	checked map[string]int            // by what is checked
	skipped map[string]map[string]int // and by ground
}

func newSimTally() *simTally {
	return &simTally{checked: map[string]int{}, skipped: map[string]map[string]int{}}
}

// does counts a check, or one that is passed over for some ground; it tells whether it is
// to be made.
func (y *simTally) does(what, ground string) bool {
	if ground == "" {
		y.checked[what]++
		return true
	}
	if y.skipped[what] == nil {
		y.skipped[what] = map[string]int{}
	}
	y.skipped[what][ground]++
	return false
}

// add adds those of a simulation.
func (y *simTally) add(more *simTally) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs++
	for what, n := range more.checked {
		y.checked[what] += n
	}
	for what, grounds := range more.skipped {
		for ground, n := range grounds {
			if y.skipped[what] == nil {
				y.skipped[what] = map[string]int{}
			}
			y.skipped[what][ground] += n
		}
	}
}

// shares are the shares of checks that were passed over, by "what: ground".
func (y *simTally) shares() map[string]float64 {
	shares := map[string]float64{}
	for what, grounds := range y.skipped {
		all := y.checked[what]
		for _, n := range grounds {
			all += n
		}
		for ground, n := range grounds {
			shares[what+": "+ground] = float64(n) / float64(all)
		}
	}
	return shares
}

// simFewest is in how many simulations the shares are about those of many.
const simFewest = 50

// simMost are the largest shares of checks that may be passed over, by their ground: more
// than the most that 64 simulations or more have.
var simMost = map[string]float64{
	"not held":                                  .35, // measured: up to .25
	"deleted while a flush was lost":            .015,
	"in a lost flush of a process that is gone": .02,
	"named by the node":                         .08,
	"without a sound snapshot, and said so":     .08,
	"flushes are lost":                          .25,
	simDoubtful:                                 .05,
	"a node said that something is missing":     .05,
}

// report logs them, and holds them against simMost.
func (y *simTally) report(t *testing.T) {
	t.Helper()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(y.checked)) {
		lines = append(lines, fmt.Sprintf("%s: %d checked", what, y.checked[what]))
	}
	shares := y.shares()
	for _, ground := range slices.Sorted(maps.Keys(shares)) {
		lines = append(lines, fmt.Sprintf("%s: %.2f %% passed over", ground, 100*shares[ground]))
		_, why, _ := strings.Cut(ground, ": ")
		if most := simMost[why]; y.runs >= simFewest && shares[ground] > most {
			t.Errorf("%s: %.2f %% passed over, want at most %.2f %%", ground, 100*shares[ground], 100*most)
		}
	}
	t.Logf("in %d simulations\n%s", y.runs, strings.Join(lines, "\n"))
}
