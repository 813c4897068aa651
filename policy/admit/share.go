package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
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
		return weir.Limit{}, policy.Failure(weir.CodeInvalidLimit, "limit", "%v", err)
	}
	return policy.PartOf(plan.Limit(), max(1, plan.Limit().Burst/uint64(nodes))), nil
}
