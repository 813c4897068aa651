package query

import (
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
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
		if made, ok, err := other.Change(limits.Change{Kind: limits.Refund}, of); !ok || err != nil || made.Freed != 2 || made.After.Remaining != 6 {
			t.Fatalf("refund: %+v, %v, %v", made, ok, err)
		}
		if got := holder.left(t, key); got != 6 {
			t.Errorf("%d left after a refund", got)
		}
		if made, ok, err := other.Change(limits.Change{Kind: limits.Grant, At: time.Now().Add(time.Hour)}, of); !ok || err != nil || made.After.Remaining != 8 {
			t.Errorf("grant: %+v, %v, %v", made, ok, err)
		}
		if made, ok, err := other.Change(limits.Change{Kind: limits.Reset}, of); !ok || err != nil || !made.Was || made.After.Remaining != 10 {
			t.Errorf("reset: %+v, %v, %v", made, ok, err)
		}
		if _, ok, err := other.Change(limits.Change{Kind: limits.Grant, At: time.Unix(1, 0)}, of); !ok || err == nil {
			t.Errorf("a grant that is over: %v, %v", ok, err)
		}
	}
}
