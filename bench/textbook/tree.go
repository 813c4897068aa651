package textbook

import "sync"

// Tree is a tree of servers in miniature. Hits go to the leaves in turn. A leaf adds up a second and sends the sum to
// its parent; the parents send their sums to the root, which answers. The answer lacks the newest second of each leaf,
// and what a leaf without new hits has not sent.
//
// Cost: Hit O(1), and one message for each second, leaf and level in place of
// one for each hit; Count O(window).
type Tree struct {
	mu     sync.Mutex
	root   *Ring
	leaves []branch
	next   int
}

// branch adds up one second, for its parent.
type branch struct {
	parent *branch // nil: the root
	slot
}

// NewTree returns a Tree of the given number of leaves, with a parent for each
// four, for windows of up to window seconds.
func NewTree(window int64, leaves int) *Tree {
	t := &Tree{root: NewRing(window), leaves: make([]branch, leaves)}
	for i := range t.leaves {
		if i%4 == 0 {
			t.leaves[i].parent = new(branch)
		} else {
			t.leaves[i].parent = t.leaves[i-1].parent
		}
	}
	return t
}

// Hit implements Counter.
func (t *Tree) Hit(at int64) {
	t.mu.Lock()
	t.add(&t.leaves[t.next], at, 1)
	t.next = (t.next + 1) % len(t.leaves)
	t.mu.Unlock()
}

func (t *Tree) add(b *branch, at, hits int64) {
	if b == nil {
		for range hits {
			t.root.Hit(at)
		}
		return
	}
	if b.start != at {
		t.add(b.parent, b.start, b.hits)
		b.slot = slot{start: at}
	}
	b.hits += hits
}

// Count implements Counter.
func (t *Tree) Count(at, seconds int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.root.Count(at, seconds)
}
