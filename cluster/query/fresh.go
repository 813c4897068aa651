package query

import (
	"slices"
	"strings"
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

// own is this node's own Fresh. It must be asked for before what it is said of.
func (r *Router) own() Fresh {
	return r.fresh.Get(freshnessEvery, func() Fresh {
		asOf, late := r.cfg.Freshness()
		return Fresh{asOf, late}
	})
}
