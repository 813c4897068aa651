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
	n.scarce, err = n.e.Replication().LimitIn(n.name, weir.WhereShared, "scarce", weir.Limit{N: simScarce, Per: simScarcePer})
	n.c.must(err)
}

// takeOne asks for an admission that there is.
func (n *simNode) takeOne() {
	key := fmt.Sprintf("a%02d", n.c.w.IntN(10))
	v, err := n.limit.Take(key, 1)
	if n.refused(err) {
		return
	}
	if err != nil || !v.Allowed {
		n.c.failf("%s denies %s: %+v, %v", n.name, key, v, err)
	}
	n.ops = append(n.ops, simOp{simAdmission, key, 0, 1, n.wall(), n.c.now().UnixMilli()})
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
	if n.refused(err) {
		return
	}
	n.c.must(err)
	switch {
	case v.Allowed && known >= simScarce:
		n.c.failf("%s admits %s, and knows of %d admissions", n.name, key, known)
	case !v.Allowed && made < simScarce && n.c.max == 0:
		n.c.failf("%s denies %s, and there are %d admissions", n.name, key, made)
	}
	if v.Allowed {
		n.ops = append(n.ops, simOp{simScarceAdmission, key, 0, 1, n.wall(), n.c.now().UnixMilli()})
	}
}

// admissions are those of a key within the scarce limit's interval that a node must know
// of, and all that may count for anybody: those of one flush as long as the last of them,
// and those of other nodes as of when they came.
//
// Whatever the clocks show, a node that was there when word came knows how old it is. What
// it learned when it started, or took a partition, it has by the clocks that were.
func (n *simNode) admissions(key string) (known, made int) {
	since := n.c.now().Add(-simScarcePer).UnixMilli()
	count := func(ops []simOp, knows, always bool, came int64) {
		all, newest := 0, came
		for _, op := range ops {
			if op.kind == simScarceAdmission && op.key == key {
				all++
				newest = max(newest, op.right)
				if knows && op.right > since {
					known++
				}
			}
		}
		if always || newest >= since-1 {
			made += all
		}
	}
	count(n.ops, true, false, 0)
	for _, f := range n.c.model.flushes {
		own := !n.c.shares && f.life == n.r.encoder.life // else from before the partition was held, perhaps
		came, live := n.arrived[f.sequence]
		live = live && !n.c.shares || own
		here := own || f.sequence > 0 && f.sequence < n.r.next() && !f.lost
		count(f.ops, here && (live || !n.c.skewed), f.lost || !live && n.c.skewed, came)
	}
	return known, made
}
