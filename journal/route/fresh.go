package route

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Fresh says how much of the newest hits is in an answer.
type Fresh struct {
	AsOf time.Time // all hits that any node took until then are in it
	Late []Late    // by name; of these nodes newer hits may be missing
}

// Late is a node that was not heard of for some seconds.
type Late struct {
	Node  string
	Since time.Time // its hits until then are in the answer
}

// with is the freshness of an answer that two nodes made together. The zero Fresh is
// that of nobody.
func (f Fresh) with(o Fresh) Fresh {
	if f.AsOf.IsZero() {
		return o
	}
	if o.AsOf.IsZero() {
		return f
	}
	if o.AsOf.Before(f.AsOf) {
		f.AsOf = o.AsOf
	}
	if len(o.Late) == 0 {
		return f
	}
	late := slices.Concat(f.Late, o.Late)
	slices.SortFunc(late, func(a, b Late) int {
		if by := strings.Compare(a.Node, b.Node); by != 0 {
			return by
		}
		return a.Since.Compare(b.Since)
	})
	f.Late = slices.CompactFunc(late, func(a, b Late) bool { return a.Node == b.Node }) // the earliest stays
	return f
}

// freshnessEvery is how old this node's own Fresh may be: it only says too little.
const freshnessEvery = 50 * time.Millisecond

// freshCache keeps this node's own Fresh, for many questions at once: one of them
// asks anew, and the others say what was known before.
type freshCache struct {
	ask    func() (asOf time.Time, late []Late)
	asking sync.Mutex
	last   atomic.Pointer[freshEntry]
}

type freshEntry struct {
	fresh Fresh
	asked time.Time
}

// get must be called before what it is said of.
func (c *freshCache) get() Fresh {
	last := c.last.Load()
	if last != nil && (time.Since(last.asked) < freshnessEvery || !c.asking.TryLock()) {
		return last.fresh
	}
	if last == nil {
		c.asking.Lock()
	}
	defer c.asking.Unlock()
	asked := time.Now()
	asOf, late := c.ask()
	c.last.Store(&freshEntry{Fresh{asOf, late}, asked})
	return Fresh{asOf, late}
}
