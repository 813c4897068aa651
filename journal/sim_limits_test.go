package journal

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir"
)

// The limits of a simulation: one that nobody reaches, whose admissions must be equal
// everywhere, and a scarce one, whose decisions must fit to what a node knows.
const (
	simLimit     = 1 << 20
	simScarce    = 5
	simScarcePer = 10 * time.Second
)

func (n *simNode) newLimits() {
	var err error
	n.limit, err = n.e.Limit("limit", weir.Limit{N: simLimit, Per: 24 * time.Hour})
	n.c.must(err)
	n.scarce, err = n.e.LimitIn(n.name, weir.WhereShared, "scarce", weir.Limit{N: simScarce, Per: simScarcePer})
	n.c.must(err)
}

// takeOne asks for an admission that there is.
func (n *simNode) takeOne() {
	key := fmt.Sprintf("a%02d", n.c.w.IntN(10))
	if v, err := n.limit.Take(key, 1); err != nil || !v.Allowed {
		n.c.failf("%s denies %s: %+v, %v", n.name, key, v, err)
	}
	n.ops = append(n.ops, simOp{simAdmission, key, 0, 1, n.wall()})
}

// takeScarce asks for one that there may not be. A node admits no more than the burst of
// what it knows, and denies only where somebody has admitted as much. It follows that all
// together admit the burst, and what each could not know (docs/limits-cluster.md).
func (n *simNode) takeScarce() {
	key := fmt.Sprintf("s%d", n.c.w.IntN(4))
	if !n.answers(key) {
		return
	}
	known, made := n.admissions(key)
	v, err := n.scarce.Take(key, 1)
	n.c.must(err)
	switch {
	case n.c.skewed: // others' admissions are forgotten by the time of those
	case v.Allowed && known >= simScarce:
		n.c.failf("%s admits %s, and knows of %d admissions", n.name, key, known)
	case !v.Allowed && made < simScarce:
		n.c.failf("%s denies %s, and there are %d admissions", n.name, key, made)
	}
	if v.Allowed {
		n.ops = append(n.ops, simOp{simScarceAdmission, key, 0, 1, n.wall()})
	}
}

// admissions are those of a key within the scarce limit's interval that a node must know
// of, and all that count for anybody: those of one flush as long as the last of them.
func (n *simNode) admissions(key string) (known, made int) {
	since := n.now().Add(-simScarcePer).UnixMilli()
	count := func(ops []simOp, knows bool) {
		all, newest := 0, int64(0)
		for _, op := range ops {
			if op.kind == simScarceAdmission && op.key == key {
				all++
				newest = max(newest, op.wall)
				if knows && op.wall > since {
					known++
				}
			}
		}
		if newest >= since-1 {
			made += all
		}
	}
	count(n.ops, true)
	for _, f := range n.c.model.flushes {
		own := !n.c.shares && f.life == n.r.encoder.life // else from before the partition was held, perhaps
		count(f.ops, own || f.sequence > 0 && f.sequence < n.r.next() && !f.lost)
	}
	return known, made
}
