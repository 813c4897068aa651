// Package textbook has the hit counters and limiters that books and interviews teach, to be measured next to Weir. The
// Designs are as fast as the design can be under one lock. The Miniatures only show an idea.
//
// They share the assumptions of the texts, which Weir does not make: a window ends at or after the newest hit, and it
// is not longer than the one that the counter was made for.
package textbook

// Counter counts hits, for many goroutines.
type Counter interface {
	// Hit counts one hit in the Unix second at.
	Hit(at int64)

	// Count answers how many hits lie in the last seconds before the end of
	// the Unix second at: in (at-seconds, at].
	Count(at, seconds int64) int64
}

// Design is one way to build a Counter.
type Design struct {
	Name string
	New  func(window int64) Counter // window: the longest that it answers, in seconds
}

// Designs are all designs of this package.
func Designs() []Design {
	return []Design{
		{"deque", func(window int64) Counter { return NewDeque(window) }},
		{"ring", func(window int64) Counter { return NewRing(window) }},
		{"total", func(window int64) Counter { return NewTotal(window) }},
		{"cached", func(window int64) Counter { return NewCached(window) }},
		{"tiers", func(int64) Counter { return NewTiers() }},
		{"seconds", func(window int64) Counter { return NewSeconds(window) }},
	}
}

// Miniatures are designs that show an idea and are not meant to be fast: without
// bounds, without a lock, or with a network in between.
func Miniatures() []Design {
	return []Design{
		{"vector", func(int64) Counter { return NewVector() }},
		{"queue", func(window int64) Counter { return NewQueue(window) }},
		{"unlocked", func(window int64) Counter { return NewUnlocked(window) }},
		{"central", func(window int64) Counter {
			c, err := NewCentral(window)
			if err != nil {
				panic(err) // no loopback
			}
			return c
		}},
		{"tree", func(window int64) Counter { return NewTree(window, 16) }},
		{"state-crdt", func(window int64) Counter { return NewStateCRDT(window) }},
		{"operation-crdt", func(window int64) Counter { return NewOperationCRDT(window) }},
	}
}

// slot is a time interval and its hits. A slot without hits adds 0 to a count.
type slot struct {
	start int64 // in units of the slot's width since 1970
	hits  int64
}
