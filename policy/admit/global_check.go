package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// refusesReserving is the error of a reservation under a limit that regions share without parts; nil: none of them is.
func (l *Live) refusesReserving(reqs []Request, d *Decision) error {
	b := l.bound.Load()
	if !b.global {
		return nil
	}
	d.reset()
	for i := range reqs {
		if err := l.gather(b, &reqs[i], d); err != nil {
			return err
		}
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.global != nil {
			return policy.Failure(weir.CodeInvalidLimit, "limit", "limit %s is shared by regions without parts (within: shared), and can't be reserved of: other regions would not learn how it is settled; take what is needed at once, or have the policy give each region its part", r.Name)
		}
	}
	return nil
}

// checkGlobal tells whether a limit that regions share without parts can be decided on this node.
func (l *Live) checkGlobal(p *policy.Policy, of weir.Limit) error {
	switch keeps := l.engine.Config().Retention; {
	case l.cluster.Divided:
		return policy.Failure(weir.CodeInvalidLimit, "within", "limit %s in line %d is shared by regions without parts, which a cluster with --replicas does not decide: give each region its part (regions, and within: leased or strict)", p.Name, p.Line)
	case othersWindow(of) > keeps:
		return policy.Failure(weir.CodeInvalidLimit, "per", "limit %s in line %d is shared by regions without parts, and admissions of the others count for %s: hits are kept for %s, so raise --retention in all regions", p.Name, p.Line, units.FormatDuration(othersWindow(of)), units.FormatDuration(keeps))
	}
	return nil
}
