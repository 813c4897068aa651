package kv_test

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// shared is how often each name is held, over all holders.
func shared(holders []*kv.LeaseHolder) map[string]int {
	held := map[string]int{}
	for group := range kv.Groups {
		name := kv.Group(group)
		for _, h := range holders {
			if _, _, ok := h.Held(name); ok {
				held[name]++
			}
		}
	}
	return held
}

// sharedOut is whether each lease is held, and by one.
func sharedOut(t *testing.T, holders []*kv.LeaseHolder) bool {
	held := shared(holders)
	for name, n := range held {
		if n > 1 {
			t.Errorf("%s is held by %d", name, n)
		}
	}
	return len(held) == kv.Groups
}

// Three nodes share the leases out as they choose; one goes, and its leases move
// to the others; it comes back, and gets them again.
func TestHoldersShareOut(t *testing.T) {
	t.Parallel()
	node := alone(t)
	var up atomic.Pointer[[]string]
	nodes := []string{"n1", "n2", "n3"}
	up.Store(&nodes)
	hold := func(name string) *kv.LeaseHolder {
		return kv.HoldLease(open(t, node, name, 6*time.Second), kv.LeaseConfig{
			Names:  groupNames(),
			Want:   func(l string) bool { return membership.ChooseHolders(*up.Load(), l) == name },
			Logger: transporttest.Logger(t, slog.LevelWarn),
		})
	}
	var holders []*kv.LeaseHolder
	for _, name := range nodes {
		holders = append(holders, hold(name))
	}
	defer func() {
		for _, h := range holders {
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}()
	transporttest.Eventually(t, "all leases are held", func() bool { return sharedOut(t, holders) })

	tokens := map[string]uint64{}
	var lost []<-chan struct{}
	for _, name := range groupNames() {
		if l, end, ok := holders[2].Held(name); ok {
			tokens[name], lost = l.Token, append(lost, end)
		}
	}
	if err := holders[2].Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, end := range lost {
		<-end
	}
	rest := []string{"n1", "n2"}
	up.Store(&rest)
	transporttest.Eventually(t, "two hold all", func() bool { return sharedOut(t, holders[:2]) })
	for name, token := range tokens {
		for _, h := range holders[:2] {
			if l, _, ok := h.Held(name); ok && l.Token <= token {
				t.Errorf("%s: token %d after %d", name, l.Token, token)
			}
		}
	}

	holders[2] = hold("n3")
	up.Store(&nodes)
	transporttest.Eventually(t, "the third has its leases again", func() bool {
		sharedOut(t, holders)
		return holders[2].Stats().Held == len(tokens)
	})
	for _, h := range holders[:2] {
		if s := h.Stats(); s.Lost != 0 && s.Failures == 0 { // a request fails where the disk stands still
			t.Errorf("stats %+v", s)
		}
	}
}

// A holder renews: after more than the time to live it has the same leases.
func TestAHolderRenews(t *testing.T) {
	t.Parallel()
	node := alone(t)
	const ttl = 3 * time.Second
	h := kv.HoldLease(open(t, node, "n1", ttl), kv.LeaseConfig{Names: []string{"a", "b"}})
	defer h.Close(t.Context())
	transporttest.Eventually(t, "both are held", func() bool { return h.Stats().Held == 2 })
	before, lost, _ := h.Held("a")
	transporttest.Eventually(t, "it was renewed for longer than the ttl", func() bool {
		l, end, _ := h.Held("a")
		if l.Token != before.Token { // a disk that stood still for the ttl: it is held anew
			before, lost = l, end
			return false
		}
		return l.Until.Sub(before.Until) > ttl
	})
	select {
	case <-lost:
		t.Error("the lease was lost")
	default:
	}
}

// In a cluster the holder's server goes away: it is cut off, and knows by its
// own clock that its leases are lost, before any other node has one.
func TestACutOffHolderKnows(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	const ttl = 6 * time.Second
	names := []string{"a", "b", "c", "d"}
	first := kv.HoldLease(open(t, c.Nodes[0], "n1", ttl), kv.LeaseConfig{Names: names, Logger: transporttest.Logger(t, slog.LevelInfo)})
	var tokens []uint64
	var ends []<-chan struct{}
	transporttest.Eventually(t, "the first node has all", func() bool {
		tokens, ends = nil, nil
		for _, name := range names {
			if l, end, ok := first.Held(name); ok {
				tokens, ends = append(tokens, l.Token), append(ends, end)
			}
		}
		return len(tokens) == len(names)
	})
	second := kv.HoldLease(open(t, c.Nodes[1], "n2", ttl), kv.LeaseConfig{Names: names, Logger: transporttest.Logger(t, slog.LevelInfo)})
	defer second.Close(t.Context())

	c.Down(0)
	start := time.Now()
	var took []time.Duration
	transporttest.Eventually(t, "the second node has all", func() bool {
		for i, name := range names {
			// The second is asked first: if it has the lease, the first must have
			// lost it before.
			l, _, ok := second.Held(name)
			if !ok {
				continue
			}
			if _, _, both := first.Held(name); both {
				t.Fatalf("%s is held by two", name)
			}
			select {
			case <-ends[i]:
			default:
				t.Fatalf("%s is held by the second, and the first was not told", name)
			}
			if l.Token <= tokens[i] {
				t.Errorf("%s: token %d after %d", name, l.Token, tokens[i])
			}
			took = append(took, time.Since(start))
		}
		return second.Stats().Held == len(names)
	})
	t.Logf("leases moved after %v", slices.Max(append(took, 0)).Round(time.Millisecond))
	if s := first.Stats(); s.Held != 0 || s.Lost < uint64(len(names)) {
		t.Errorf("the first node: %+v", s)
	}
	first.Close(t.Context())
}
