package policy

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// strictLimit is what a limit that another node decides needs here.
type strictLimit struct {
	away   Away
	counts *awayCounts

	// With AwayShare: this node's share, of so many nodes.
	whole weir.Limit
	share *weir.KeyedLimit
	nodes atomic.Int64
}

// awayCounts counts, by Away, the decisions of a policy without the node that decides.
type awayCounts [AwayShare + 1]atomic.Uint64

// AwayCount is how many decisions of a strict policy were made without the node that
// decides.
type AwayCount struct{ Closed, Open, Share uint64 }

// Away is the AwayCount of a policy by name since the Live was made; zero for one that
// never was strict.
func (l *Live) Away(name string) AwayCount {
	l.counting.Lock()
	defer l.counting.Unlock()
	c := l.away[name]
	if c == nil {
		return AwayCount{}
	}
	return AwayCount{c[AwayClosed].Load(), c[AwayOpen].Load(), c[AwayShare].Load()}
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

func (l *Live) strictLimit(name string, of weir.Limit, away Away) (*strictLimit, error) {
	s := &strictLimit{away: away, counts: l.countsOf(name), whole: of}
	if away != AwayShare {
		return s, nil
	}
	nodes := l.nodes()
	part, err := shareOf(of, nodes)
	if err != nil {
		return nil, err
	}
	s.share, err = l.limit(weir.WhereNode, name, part)
	s.nodes.Store(int64(nodes))
	return s, err
}

func (l *Live) nodes() int {
	if l.cluster.Nodes == nil {
		return 1
	}
	return max(1, l.cluster.Nodes())
}

// shareNow is the share by the number of nodes that there are now.
func (s *strictLimit) shareNow(nodes int) (*weir.KeyedLimit, error) {
	if s.nodes.Swap(int64(nodes)) == int64(nodes) {
		return s.share, nil
	}
	part, err := shareOf(s.whole, nodes)
	if err == nil {
		err = s.share.SetLimit(part)
	}
	return s.share, err
}

// shareOf is a node's part of a limit: of the burst, within the same interval. By rate
// and burst apart, both rounded down, the interval could come out shorter, and the parts
// together more than the whole.
func shareOf(of weir.Limit, nodes int) (weir.Limit, error) {
	plan, err := limit.New(of)
	if err != nil {
		return weir.Limit{}, failure(weir.CodeInvalidLimit, "limit", "%v", err)
	}
	of = plan.Limit()
	part := max(1, of.Burst/uint64(nodes))
	return weir.Limit{N: part, Burst: part, Per: max(time.Millisecond, plan.Interval()), Algorithm: of.Algorithm}, nil
}
