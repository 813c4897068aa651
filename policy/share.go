package policy

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

func (l *Live) nodes() int {
	if l.cluster.Nodes == nil {
		return 1
	}
	return max(1, l.cluster.Nodes())
}

// shareNow is the share by the number of nodes that there are now.
func (s *elsewhere) shareNow(nodes int) (*weir.KeyedLimit, error) {
	if s.nodes.Swap(int64(nodes)) == int64(nodes) {
		return s.share, nil
	}
	part, err := shareOf(s.whole, nodes)
	if err == nil {
		err = s.share.SetLimit(part)
	}
	return s.share, err
}

// shareOf is a node's part of a limit.
func shareOf(of weir.Limit, nodes int) (weir.Limit, error) {
	plan, err := limit.New(of)
	if err != nil {
		return weir.Limit{}, failure(weir.CodeInvalidLimit, "limit", "%v", err)
	}
	return partOf(plan.Limit(), max(1, plan.Limit().Burst/uint64(nodes))), nil
}

// partOf is a part of a limit, whose burst is filled in: so many of the burst, within the same interval. By rate
// and burst apart, both rounded down, the interval could come out shorter, and the parts
// together more than the whole.
func partOf(of weir.Limit, burst uint64) weir.Limit {
	if of.Calendar.Unit != limit.NoUnit {
		return weir.Limit{N: burst, Calendar: of.Calendar}
	}
	return weir.Limit{N: burst, Burst: burst, Per: max(time.Millisecond, of.Interval()), Algorithm: of.Algorithm}
}
