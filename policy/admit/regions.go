package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// Here is what is decided by on this node of a policy's limit, its own or an override's: where regions have parts of it, that of this
// node's region. ok is false if it has none.
func (l *Live) Here(p *policy.Policy, of weir.Limit) (here weir.Limit, ok bool, err error) {
	if p.Parts == nil && !p.Global || l.cluster.Whole {
		return of, true, nil
	}
	if l.cluster.Region == "" {
		return of, false, policy.Failure(weir.CodeInvalidLimit, "where", "limit %s in line %d is over regions, and this server counts for none: start it with --region, or write another where", p.Name, p.Line)
	}
	if p.Global {
		return of, true, l.checkGlobal(p, of)
	}
	for _, part := range policy.PartsOf(of.Burst, p.Parts) {
		if part.Region == l.cluster.Region && part.Burst > 0 {
			return policy.PartOf(of, part.Burst), true, nil
		}
	}
	return of, false, nil
}

// Region is the region that this node counts for; "": none.
func (l *Live) Region() string { return l.cluster.Region }

// noPart stands for the node that decides where this region has no part of a limit.
var noPart = &elsewhere{}
