package textbook

import (
	"math/rand/v2"
	"sync"
)

// A replicated counter takes hits at its replicas in turn and answers at the first one. A replica sends to the others
// at every exchange-th hit. The network loses 1 of 100 messages and delivers 1 of 100 twice.
const (
	replicas = 3
	exchange = 100
)

type network struct{ r *rand.Rand }

// deliveries is how many times a message arrives.
func (n network) deliveries() int {
	switch n.r.IntN(100) {
	case 0:
		return 0
	case 1:
		return 2
	}
	return 1
}

// StateCRDT is a grow-only counter for each second (Shapiro et al., 2011, state-based). Each replica keeps the number
// of hits that every replica took. It sends all these numbers, and merges by the larger number. Lost and repeated
// messages do no harm. Counts lack the hits that have not been exchanged yet.
//
// Cost: Hit O(1) and, every exchange-th hit, a message of replicas x window
// numbers; Count O(replicas x window); memory replicas x replicas x window.
type StateCRDT struct {
	mu    sync.Mutex
	net   network
	state [replicas][replicas][]slot // at, of
	hits  int
}

// NewStateCRDT returns a StateCRDT for windows of up to window seconds.
func NewStateCRDT(window int64) *StateCRDT {
	c := &StateCRDT{net: network{rand.New(rand.NewPCG(1, 1))}}
	for at := range replicas {
		for origin := range replicas {
			c.state[at][origin] = make([]slot, window)
		}
	}
	return c
}

// Hit implements Counter.
func (c *StateCRDT) Hit(at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, round := c.hits%replicas, c.hits/replicas+1
	c.hits++
	mine := c.state[own][own]
	mine[at%int64(len(mine))].hit(at)
	if round%exchange != 0 {
		return
	}
	for to := range replicas {
		for range c.net.deliveries() {
			for origin := range replicas {
				merge(c.state[to][origin], c.state[own][origin])
			}
		}
	}
}

func merge(into, from []slot) {
	for i, s := range from {
		if s.start > into[i].start || s.start == into[i].start && s.hits > into[i].hits {
			into[i] = s
		}
	}
}

// Count implements Counter at the first replica.
func (c *StateCRDT) Count(at, seconds int64) (sum int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for origin := range replicas {
		sum += sumAfter(c.state[0][origin], at-seconds)
	}
	return sum
}

// OperationCRDT sends each hit to the other replicas, which add it
// (operation-based). It is right only over a network that delivers every message
// exactly once; this one does not.
//
// Cost: Hit O(1) and replicas - 1 messages; Count O(window); memory replicas x
// window.
type OperationCRDT struct {
	mu    sync.Mutex
	net   network
	rings [replicas]*Ring
	hits  int
}

// NewOperationCRDT returns an OperationCRDT for windows of up to window seconds.
func NewOperationCRDT(window int64) *OperationCRDT {
	c := &OperationCRDT{net: network{rand.New(rand.NewPCG(1, 2))}}
	for i := range c.rings {
		c.rings[i] = NewRing(window)
	}
	return c
}

// Hit implements Counter.
func (c *OperationCRDT) Hit(at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.hits % replicas
	c.hits++
	for i, ring := range c.rings {
		times := 1
		if i != own {
			times = c.net.deliveries()
		}
		for range times {
			ring.Hit(at)
		}
	}
}

// Count implements Counter at the first replica.
func (c *OperationCRDT) Count(at, seconds int64) int64 { return c.rings[0].Count(at, seconds) }
