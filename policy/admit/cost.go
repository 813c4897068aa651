package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// Cost is how much of something a request needs, such as tokens: a policy with that Policy.Cost takes it in place of Request.N.
type Cost struct {
	Field string
	N     uint64
}

// MaxCosts is how many costs one request has.
const MaxCosts = 8

// cost is what a policy takes of a request. It is an error if the request does not say it: what is left out would cost nothing, or too much.
func (r *Request) cost(p *policy.Policy) (uint64, error) {
	if p.Cost == "" || r.N == 0 { // that asks only
		return r.N, nil
	}
	for i := range r.Costs {
		if r.Costs[i].Field == p.Cost {
			return r.Costs[i].N, nil
		}
	}
	return 0, policy.Failure(weir.CodeInvalidCount, "costs", "limit %s counts %s, and the request does not say how many: send for example \"costs\":{%q:1}", p.Name, p.Cost, p.Cost)
}
