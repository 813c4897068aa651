package kv_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// singleNode is one node with JetStream.
func singleNode(t testing.TB) *transport.Node {
	t.Helper()
	node, err := transport.Open(t.Context(), transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	return node
}

// open opens the leases, for a node with a data directory of its own; the first call makes them.
func open(t testing.TB, node *transport.Node, name string, ttl time.Duration) *kv.Bucket {
	t.Helper()
	return openAs(t, node, kv.Self{Node: name, Origin: rand.Text()}, ttl)
}

func openAs(t testing.TB, node *transport.Node, self kv.Self, ttl time.Duration) *kv.Bucket {
	t.Helper()
	var b *kv.Bucket
	var err error
	transporttest.Eventually(t, "the bucket is there", func() bool { // a replica may be on its way
		b, err = kv.OpenBucket(t.Context(), node.JetStream(), "leases", self, ttl, node.Replicas(3))
		return err == nil
	})
	return b
}

// Many take and give back one lease: never two at a time, and each token is
// greater than the one before.
func TestALeaseIsHeldByOne(t *testing.T) {
	node := singleNode(t)
	const nodes, rounds = 6, 15
	var mu sync.Mutex // guards last; free while a lease is held, or two have it
	var last uint64
	var working sync.WaitGroup
	for i := range nodes {
		b := open(t, node, fmt.Sprint("n", i), time.Minute)
		working.Go(func() {
			for range rounds {
				var l kv.Lease
				transporttest.Eventually(t, "it is acquired", func() bool {
					var err error
					if l, err = b.Acquire(t.Context(), "a"); err != nil && !errors.Is(err, kv.ErrTaken) {
						t.Errorf("acquire: %v", err)
					}
					return err == nil
				})
				if !mu.TryLock() {
					t.Error("two hold the lease")
					return
				}
				if l.Token <= last || !l.Valid(time.Now()) {
					t.Errorf("token %d after %d, until %v", l.Token, last, l.Until)
				}
				last = l.Token
				if renewed, err := b.Renew(t.Context(), l); err != nil || renewed.Token != l.Token || !renewed.Until.After(l.Until) {
					t.Errorf("renewed %+v of %+v, %v", renewed, l, err)
				} else {
					l = renewed
				}
				mu.Unlock()
				if err := b.Release(t.Context(), l); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	working.Wait()
}

// A holder that renews no more keeps the lease until its own clock says it is
// over, and no other has it before.
func TestALeaseRunsOut(t *testing.T) {
	t.Parallel()
	node := singleNode(t)
	a, b := open(t, node, "a", time.Second), open(t, node, "b", time.Hour)
	if b.TTL() != time.Second {
		t.Fatalf("the second goes by a ttl of %v, the first by 1s", b.TTL())
	}
	var old kv.Lease
	transporttest.Eventually(t, "it is acquired, and renewed in time", func() bool {
		var err error
		if old, err = a.Acquire(t.Context(), "x"); err != nil {
			return false
		}
		old, err = a.Renew(t.Context(), old) // a renewed one ends as well
		return err == nil
	})
	start := time.Now()
	var l kv.Lease
	transporttest.Eventually(t, "it runs out", func() bool {
		var err error
		if l, err = b.Acquire(t.Context(), "x"); err != nil && !errors.Is(err, kv.ErrTaken) {
			t.Fatal(err)
		}
		return err == nil
	})
	if old.Valid(time.Now()) || old.Valid(l.Until.Add(-b.TTL()+b.TTL()/3)) {
		t.Error("two hold the lease")
	}
	t.Logf("free %v after the last renewal, of %v", time.Since(start), b.TTL())
	if l.Token <= old.Token {
		t.Errorf("token %d after %d", l.Token, old.Token)
	}
	if _, err := a.Renew(t.Context(), old); !errors.Is(err, kv.ErrLost) {
		t.Errorf("renewal by the old holder: %v", err)
	}
	if err := a.Release(t.Context(), old); err != nil {
		t.Errorf("release by the old holder: %v", err)
	}
	if _, err := b.Renew(t.Context(), l); err != nil && l.Valid(time.Now()) {
		t.Errorf("the old holder's release took it from the new one: %v", err)
	}
}

// An answer that is lost is not a lost lease: whoever wrote it recognises it.
func TestLostAnswers(t *testing.T) {
	node := singleNode(t)
	b := open(t, node, "a", time.Minute)
	first, err := b.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), first); err != nil { // this answer does not arrive
		t.Fatal(err)
	}
	renewed, err := b.Renew(t.Context(), first)
	if err != nil || renewed.Token != first.Token {
		t.Errorf("renewed %+v, %v", renewed, err)
	}
	again, err := b.Acquire(t.Context(), "x") // as if the answer to the first Acquire had not arrived
	if err != nil || again.Token < first.Token {
		t.Errorf("acquired %+v, %v", again, err)
	}
	if _, err := open(t, node, "a", time.Minute).Acquire(t.Context(), "x"); !errors.Is(err, kv.ErrTaken) {
		t.Errorf("another life of the same node: %v", err)
	}
}

func TestABucketWithoutEndIsRefused(t *testing.T) {
	node := singleNode(t)
	if _, err := kv.OpenBucket(t.Context(), node.JetStream(), "leases", kv.Self{Node: "a"}, 0, 1); err == nil {
		t.Error("it was opened")
	}
}

func TestRequestsThatFailAreNoVerdict(t *testing.T) {
	node := singleNode(t)
	b := open(t, node, "a", time.Minute)
	l, err := b.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Acquire(ended, "y"); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire: %v", err)
	}
	if same, err := b.Renew(ended, l); !errors.Is(err, context.Canceled) || same != l {
		t.Errorf("renew: %+v, %v", same, err)
	}
	if err := b.Release(ended, l); !errors.Is(err, context.Canceled) {
		t.Errorf("release: %v", err)
	}
}

// A node that crashed and is back with its data directory has its leases at once, with a greater token, and the life before
// has none: neither on another disk, nor for another node.
func TestTheNextLifeOnADisk(t *testing.T) {
	node := singleNode(t)
	self := kv.Self{Node: "n1", Origin: "0123456789abcdef"}
	before, after := openAs(t, node, self, time.Minute), openAs(t, node, self, time.Minute)
	disk, other := open(t, node, "n1", time.Minute), openAs(t, node, kv.Self{Node: "n2", Origin: self.Origin}, time.Minute)
	first, err := before.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []*kv.Bucket{disk, other} {
		if _, err := none.Acquire(t.Context(), "a"); !errors.Is(err, kv.ErrTaken) {
			t.Error(err)
		}
	}
	second, err := after.Acquire(t.Context(), "a")
	if err != nil || second.Token <= first.Token || !second.Valid(time.Now()) {
		t.Errorf("%+v after %+v, %v", second, first, err)
	}
	if _, err := before.Renew(t.Context(), first); !errors.Is(err, kv.ErrLost) {
		t.Error(err)
	}
	if again, err := after.Renew(t.Context(), second); err != nil || again.Token != second.Token {
		t.Errorf("%+v renews %+v, %v", again, second, err)
	}
}
