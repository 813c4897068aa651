package kv_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// A holder renews: after more than the time to live it has the same lease. What it gives back another has at once.
func TestAHolderRenews(t *testing.T) {
	t.Parallel()
	node := singleNode(t)
	const ttl = 3 * time.Second
	log := transporttest.Logger(t, slog.LevelWarn)
	h := kv.HoldLease(open(t, node, "n1", ttl), "a", log)
	var before kv.Lease
	transporttest.Eventually(t, "it is held", func() (ok bool) { before, ok = h.Held(); return ok })
	other := kv.HoldLease(open(t, node, "n2", ttl), "a", log)
	transporttest.Eventually(t, "it was renewed for longer than the ttl", func() bool {
		l, ok := h.Held()
		if ok && l.Token != before.Token { // a disk that stood still for the ttl: it is held anew
			before = l
			return false
		}
		return l.Until.Sub(before.Until) > ttl
	})
	if who, err := h.Who(t.Context()); who != "n1" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := h.Held(); ok {
		t.Error("it is held after it was given back")
	}
	transporttest.Eventually(t, "the other has it", func() bool { l, ok := other.Held(); return ok && l.Token > before.Token })
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// In a cluster the holder's server goes away: it is cut off, and knows by its
// own clock that its lease is lost, before any other node has it.
func TestACutOffHolderKnows(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	const ttl = 6 * time.Second
	log := transporttest.Logger(t, slog.LevelInfo)
	first := kv.HoldLease(open(t, c.Nodes[0], "n1", ttl), "a", log)
	var before kv.Lease
	transporttest.Eventually(t, "the first node has it", func() (ok bool) { before, ok = first.Held(); return ok })
	second := kv.HoldLease(open(t, c.Nodes[1], "n2", ttl), "a", log)
	defer second.Close(t.Context())

	c.Down(0)
	start := time.Now()
	transporttest.Eventually(t, "the second node has it", func() bool {
		// The second is asked first: if it has the lease, the first must have
		// lost it before.
		l, ok := second.Held()
		if !ok {
			return false
		}
		if _, both := first.Held(); both {
			t.Fatal("it is held by two")
		}
		if l.Token <= before.Token {
			t.Errorf("token %d after %d", l.Token, before.Token)
		}
		return true
	})
	t.Logf("the lease moved after %v", time.Since(start).Round(time.Millisecond))
	first.Close(t.Context())
}
