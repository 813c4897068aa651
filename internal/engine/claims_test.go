package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// claims drives engines and a list of hits per key together: whatever was evicted,
// expired, cut, applied elsewhere or loaded from a state, no answer may claim more
// than is so.
type claims struct {
	t       *testing.T
	r       *rand.Rand
	cfg     Config
	now     int64
	engines []*Engine // the first takes hits; the others follow it
	lists   map[string]*naive
}

func newClaims(t *testing.T, seed uint64) *claims {
	c := &claims{t: t, r: rand.New(rand.NewPCG(seed, 9)), now: 1_000_000, lists: map[string]*naive{AllKeys: {}}}
	const partitions = 1 // so that 64 KiB are the budget
	c.cfg = Config{
		Partitions: partitions, Memory: partitions * partitionMemory, Gather: true, Now: func() time.Time { return unix(c.now) },
		Retention: time.Duration(511+c.r.IntN(3000)) * time.Second,
	}
	for range 2 {
		c.engines = append(c.engines, newTestEngine(t, c.cfg))
	}
	return c
}

func (c *claims) hit() {
	key, at, n := fmt.Sprintf("key:%d", int(c.r.ExpFloat64()*40)), c.now-c.r.Int64N(100)*c.r.Int64N(2), 1+c.r.Uint64N(3)
	switch c.r.IntN(10) {
	case 0:
		at -= c.r.Int64N(2 * int64(c.cfg.Retention/time.Second))
	case 1:
		key = fmt.Sprintf("flood:%d:%0300d", c.r.IntN(9999), 0)
	case 2:
		key = SeparatePrefix + "login:allowed"
	}
	outcome, err := c.engines[0].HitAt(unix(at), key, n)
	if err != nil {
		c.t.Fatal(err)
	}
	if outcome == TooLate {
		return
	}
	if c.lists[key] == nil {
		c.lists[key] = new(naive)
	}
	c.lists[key].add(at, n)
	if !keyspace.Separate(key) {
		c.lists[AllKeys].add(at, n)
	}
}

// flush has the others follow, the second as one that starts from a state now and then.
func (c *claims) flush() {
	restart := c.r.IntN(10) == 0
	var states [][]byte
	for partition := range c.cfg.Partitions {
		var cut replication.Cut
		c.engines[0].Cut(partition, &cut, restart)
		states = append(states, cut.State)
		c.engines[1].Apply(partition, cut.Deltas, nil)
	}
	if !restart {
		return
	}
	c.engines[1] = newTestEngine(c.t, c.cfg)
	for partition, state := range states {
		if err := c.engines[1].LoadState(partition, state, 0); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *claims) check() {
	retention := int64(c.cfg.Retention / time.Second)
	for i, e := range c.engines {
		for key, list := range c.lists {
			at := c.now - c.r.Int64N(retention)*c.r.Int64N(2)
			for _, seconds := range []int64{1 + c.r.Int64N(300), 1 + c.r.Int64N(retention), retention, retention + 1 + c.r.Int64N(retention), 1_000_000_000} {
				what := fmt.Sprintf("engine %d, retention %d, (%d, %d] of %.20s", i, retention, at-seconds-c.now, at-c.now, key)
				got, err := e.CountAt(unix(at), key, time.Duration(seconds)*time.Second)
				if err != nil {
					c.t.Fatal(err)
				}
				truth := list.count(at, seconds)
				checkBounds(c.t, what, got, truth, false)
				if at-seconds < c.now-retention && seconds > retention && (got.Exact() || got.HasUpper()) {
					c.t.Fatalf("%s: %v, though older hits than the retention are refused", what, got)
				}
				if key == AllKeys && at == c.now && seconds <= 300 && !got.Exact() {
					c.t.Fatalf("%s: %v, must be exact", what, got)
				}
				rate := got.Per(seconds)
				if exactly := float64(truth) / float64(seconds); rate.Lower > exactly || exactly > rate.Upper || rate.Exact() != got.Exact() {
					c.t.Fatalf("%s: rate %v, truth %v", what, rate, exactly)
				}
			}
		}
	}
}

func TestNoAnswerClaimsTooMuch(t *testing.T) {
	var evicted, expired, tooLate uint64
	for seed := range uint64(12) {
		c := newClaims(t, seed)
		for i := range 3000 {
			if c.now += c.r.Int64N(4) * c.r.Int64N(2); c.r.IntN(500) == 0 {
				c.now += c.r.Int64N(1000)
			}
			c.hit()
			if i%100 == 0 {
				c.flush()
			}
			if i%100 == 50 {
				for _, e := range c.engines {
					e.keys.Expire(c.r.IntN(c.cfg.Partitions))
				}
			}
		}
		c.flush()
		c.check()
		s := c.engines[0].Stats()
		if all := c.lists[AllKeys].count(c.now, c.now); s.Hits != all {
			t.Errorf("seed %d: %d hits in the figures, %d were taken", seed, s.Hits, all)
		}
		evicted, expired, tooLate = evicted+s.EvictedKeys, expired+s.ExpiredKeys, tooLate+s.TooLate
	}
	if evicted == 0 || expired == 0 || tooLate == 0 {
		t.Errorf("%d evicted, %d expired, %d too late: each must have been tried", evicted, expired, tooLate)
	}
}
