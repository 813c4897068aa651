package region

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
)

// simTurnsShare is how many of the seeds of TestSimulation TestLinksThatBreakInTurn runs, one of so many: it takes longer.
const simTurnsShare = 3

// TestLinksThatBreakInTurn has a region pull from three others, each of which has another base of a fourth, over links that break in
// turn, each after a few messages, which is less than any base has. The region comes to all that the three have all the same, and its log has
// nothing twice.
func TestLinksThatBreakInTurn(t *testing.T) {
	t.Parallel()
	var failed, turns, halves atomic.Int64
	n := *simSeeds / simTurnsShare
	if err := concurrency.Do(n, func(i int) error {
		if failed.Load() < 3 && !breakInTurn(t, *simFirst+uint64(i), &turns, &halves) {
			failed.Add(1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d simulations: %d connections, %d times two bases or more of a region had begun", n, turns.Load(), halves.Load())
}

func breakInTurn(t *testing.T, seed uint64, turns, halves *atomic.Int64) bool {
	w := &simWorld{t: t, rng: rand.New(rand.NewPCG(seed, 5)), tally: &simTally{}, clock: simNow, pieces: 60}
	w.nameKeys()
	w.build(5, simMesh)
	const taker, from, source = 0, 1, 4 // 1 to 3 pull from 4, and 0 from them
	for i := from; i < source; i++ {    // each has another digest of 4, and makes its base of it
		for range 30 {
			w.regions[source].journal.write()
		}
		w.act(source)
		l := linkTo(w, i, source)
		w.fill(i, l)
		for len(l.underWay) > 0 && l.feed != nil {
			data := l.underWay[0]
			l.underWay = l.underWay[1:]
			w.take(i, l, data)
		}
		n := w.regions[i].nodes[0]
		if known := n.ledger.Region("e"); known == nil || n.follow(t.Context()) != nil || n.writeBase(t.Context(), "e") != nil {
			t.Errorf("seed %d: region %d has no windows of the last", seed, i)
			return false
		}
	}
	node, log := w.regions[taker].nodes[0], w.regions[taker].log
	most := 0
	for i := from; i < source; i++ {
		most += len(w.regions[i].log.messages)
	}
	shortest := 1 + w.rng.IntN(3)
	done := func() bool {
		for i := from; i < source; i++ {
			theirs := w.regions[i].nodes[0].ledger.Have()
			for name, id := range theirs {
				if node.ledger.Have()[name].Before(id) {
					return false
				}
			}
		}
		return true
	}
	for turn := 0; !done(); turn++ {
		if turn > 3*most {
			t.Errorf("seed %d: after %d connections of %d messages or more the region does not have what %d messages say", seed, turn, shortest, most)
			return false
		}
		turns.Add(1)
		i := from + turn%3
		l := linkTo(w, taker, i)
		w.fill(taker, l)
		for range shortest + w.rng.IntN(3) {
			if l.feed == nil || len(l.underWay) == 0 {
				break
			}
			data := l.underWay[0]
			l.underWay = l.underWay[1:]
			w.take(taker, l, data)
		}
		l.feed, l.underWay, l.parts = nil, nil, assembler{}
		node.links[l.number].running.Store(false)
		if len(node.ledger.Begun()["e"]) > 1 {
			halves.Add(1)
		}
	}
	if got := len(log.messages); got > most {
		t.Errorf("seed %d: the log has %d messages of %d", seed, got, most)
		return false
	}
	for _, r := range w.regions {
		r.journal.complete()
	}
	for range 3 {
		w.clock = w.clock.Add(time.Minute)
		for i := range w.regions {
			w.act(i)
			w.drain(i)
		}
	}
	return w.check(seed)
}
