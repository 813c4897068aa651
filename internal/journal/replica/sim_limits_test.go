package replica

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// The limits of a simulation: one that nobody reaches, whose admissions must be equal
// everywhere, and a scarce one, whose decisions must fit to what a node knows.
const (
	simLimit     = 1 << 20
	simLimitPer  = 24 * time.Hour
	simScarce    = 5
	simScarcePer = 10 * time.Second
)

func (n *simNode) newLimits() {
	var err error
	n.limit, err = n.e.Limit("limit", engine.Limit{N: simLimit, Per: simLimitPer})
	n.c.must(err)
	n.scarce, err = n.e.Limits().LimitIn(n.name, limit.WhereLeased, "scarce", engine.Limit{N: simScarce, Per: simScarcePer})
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
	n.ops = append(n.ops, simOp{kind: simAdmission, key: key, n: 1, wall: n.wall(), right: n.c.now().UnixMilli()})
}

// takeScarce asks for one that there may not be. A node admits no more than the burst of
// what it knows, and denies only where somebody has admitted as much: the owner of a key, which has followed the journal, so
// never exceeds the limit.
func (n *simNode) takeScarce() {
	key := fmt.Sprintf("s%d", n.c.w.IntN(4))
	known, made := n.admissions(key)
	v, err := n.scarce.Take(key, 1)
	if n.refused(err) {
		return
	}
	n.c.must(err)
	switch {
	case v.Allowed && known >= simScarce:
		n.c.failf("%s admits %s, and knows of %d admissions", n.name, key, known)
	case !v.Allowed && made < simScarce:
		n.c.failf("%s denies %s, and there are %d admissions", n.name, key, made)
	}
	if v.Allowed {
		n.ops = append(n.ops, simOp{kind: simScarceAdmission, key: key, n: 1, wall: n.wall(), right: n.c.now().UnixMilli()})
	}
}
