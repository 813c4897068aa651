package admit

import (
	"sync/atomic"

	"github.com/weir-counter/weir/policy"
)

// awayCounts counts, by Away, the decisions of a policy without the node that decides.
type awayCounts [policy.AwayOwn + 1]atomic.Uint64

// AwayCount is how many decisions of a policy were made without the node that decides:
// of a strict one by its Away, of a shared one Own.
type AwayCount struct{ Closed, Open, Share, Own uint64 }

// InlineAway is, for Live.Away, the name of all limits that requests bring along: theirs
// may be any. No policy has it.
const InlineAway = policy.InlinePrefix + "*"

// Away is the AwayCount of a policy by name, or of InlineAway, since the Live was made; zero for one whose
// limits were always decided here.
func (l *Live) Away(name string) AwayCount {
	l.counting.Lock()
	defer l.counting.Unlock()
	c := l.away[name]
	if c == nil {
		return AwayCount{}
	}
	return AwayCount{c[policy.AwayClosed].Load(), c[policy.AwayOpen].Load(), c[policy.AwayShare].Load(), c[policy.AwayOwn].Load()}
}

// countsOf is kept by name, so that another Set goes on counting.
func (l *Live) countsOf(name string) *awayCounts {
	l.counting.Lock()
	defer l.counting.Unlock()
	c := l.away[name]
	if c == nil {
		if l.away == nil {
			l.away = map[string]*awayCounts{}
		}
		c = new(awayCounts)
		l.away[name] = c
	}
	return c
}
