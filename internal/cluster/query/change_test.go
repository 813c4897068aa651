package query

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine/side"
)

// A change to a key of a shared limit is made at a node that holds it.
func TestChangesAtAHolder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 1, nil)
	for p := range parts {
		key := f.keyOf(p, 0)
		var holder, other *node
		for _, n := range f.nodes {
			if n.Holds(key) {
				holder = n
			} else {
				other = n
			}
		}
		kl := other.shared(t, "l", 10)
		for range 6 {
			other.take(t, kl, key)
		}
		of := weir.Check{Limit: kl, Key: key, N: 2}
		if made, ok, err := other.Change(side.Change{Kind: side.Refund}, of); !ok || err != nil || made.Freed != 2 || made.After.Remaining != 6 {
			t.Fatalf("refund: %+v, %v, %v", made, ok, err)
		}
		if got := holder.left(t, key); got != 6 {
			t.Errorf("%d left after a refund", got)
		}
		if made, ok, err := other.Change(side.Change{Kind: side.Grant, At: time.Now().Add(time.Hour)}, of); !ok || err != nil || made.After.Remaining != 8 {
			t.Errorf("grant: %+v, %v, %v", made, ok, err)
		}
		if made, ok, err := other.Change(side.Change{Kind: side.Reset}, of); !ok || err != nil || !made.Was || made.After.Remaining != 10 {
			t.Errorf("reset: %+v, %v, %v", made, ok, err)
		}
		if _, ok, err := other.Change(side.Change{Kind: side.Grant, At: time.Unix(1, 0)}, of); !ok || err == nil {
			t.Errorf("a grant that is over: %v, %v", ok, err)
		}
	}
}

// A change whose answer did not come in time is asked again of the same node, which makes it once; no other is asked.
func TestAChangeIsMadeOnce(t *testing.T) {
	t.Parallel()
	f, n, first, next := threeHolders(t, 100*time.Millisecond)
	key, kl := f.keyOf(1, 0), n.shared(t, "l", 10)
	for range 6 {
		if _, answered := n.take(t, kl, key); !answered {
			t.Fatal("not taken")
		}
	}
	g := f.newGate(first)
	var made side.Changed
	var answered bool
	var err error
	var asking sync.WaitGroup
	asking.Go(func() {
		made, answered, err = n.Change(side.Change{Kind: side.Refund}, weir.Check{Limit: kl, Key: key, N: 2})
	})
	late := <-g.msgs
	transporttest.Eventually(t, "the change is asked again", func() bool { return len(g.msgs) > 0 })
	first.serve.arrive(late)
	g.open(t, first)
	asking.Wait()
	if !answered || err != nil || made.Freed != 2 || made.After.Remaining != 6 {
		t.Errorf("%+v, %v, %v", made, answered, err)
	}
	if left := first.left(t, key); left != 6 || next.left(t, key) != 10 {
		t.Errorf("%d left at the node that was asked, %d at the next", left, next.left(t, key))
	}
}

// A change that is never answered is known to nobody as made or not made, and that is said.
func TestAChangeWithoutAnswer(t *testing.T) {
	t.Parallel()
	f, n, first, next := threeHolders(t, 100*time.Millisecond)
	f.newGate(first)
	key, kl := f.keyOf(1, 0), n.shared(t, "l", 10)
	made, answered, err := n.Change(side.Change{Kind: side.Grant, At: time.Now().Add(time.Hour)}, weir.Check{Limit: kl, Key: key, N: 2})
	if answered || err != nil || next.left(t, key) != 10 {
		t.Errorf("%+v, %v, %v, %d left of the next", made, answered, err, next.left(t, key))
	}
}
