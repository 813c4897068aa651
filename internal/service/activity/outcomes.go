package activity

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/policy"
)

// This part counts the outcomes of policies, for metrics.
//
// Invariant: clients can't make it grow. Its names are the policies that this process has had, and one name for all
// limits that requests define.

// inlineName stands for all limits that requests bring along: their names are the
// clients' and may be many.
const inlineName = "(inline)"

// OutcomeCounts counts decisions by policy and outcome. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
type OutcomeCounts struct {
	policies *admit.Live
	byName   atomic.Pointer[map[string]*outcomes]
	adding   sync.Mutex // held to put another map in the place of byName

	inline    outcomes      // of limits that requests bring along
	unmatched atomic.Uint64 // requests that no policy is for
}

// outcomes counts the decisions of one policy.
type outcomes struct{ allowed, denied, shadowDenied atomic.Uint64 }

// NewOutcomes counts for policies, none so far.
func NewOutcomes(policies *admit.Live) *OutcomeCounts {
	d := &OutcomeCounts{policies: policies}
	d.byName.Store(&map[string]*outcomes{})
	return d
}

// Count counts a decision in the same way as its hits. If another limit denied the request, a limit that did not deny
// counts nothing. A request with n = 0 counts nothing.
func (d *OutcomeCounts) Count(of *admit.Decision) {
	if of.Unmatched {
		d.unmatched.Add(1)
	}
	for i := range of.Results {
		r := &of.Results[i]
		switch {
		case r.N == 0:
		case !r.Allowed && r.Mode == policy.Shadow:
			d.of(r).shadowDenied.Add(1)
		case !r.Allowed:
			d.of(r).denied.Add(1)
		case of.Allowed:
			d.of(r).allowed.Add(1)
		}
	}
}

func (d *OutcomeCounts) of(r *admit.Result) *outcomes {
	name := r.Name
	if r.Inline {
		return &d.inline
	}
	if _, known := d.policies.Limit(name); !known {
		return &d.inline
	}
	if have := (*d.byName.Load())[name]; have != nil {
		return have
	}
	d.adding.Lock()
	defer d.adding.Unlock()
	old := *d.byName.Load()
	if have := old[name]; have != nil {
		return have
	}
	grown := maps.Clone(old)
	made := new(outcomes)
	grown[name] = made
	d.byName.Store(&grown)
	return made
}

// OutcomeFigures are how often a policy decided how, since the start.
type OutcomeFigures struct {
	Limit                         string
	Allowed, Denied, ShadowDenied uint64
}

func (o *outcomes) figures(name string) OutcomeFigures {
	return OutcomeFigures{name, o.allowed.Load(), o.denied.Load(), o.shadowDenied.Load()}
}

// List is of all policies, with the requests that no policy was for.
func (d *OutcomeCounts) List() (list []OutcomeFigures, unmatched uint64) {
	for name, of := range *d.byName.Load() {
		list = append(list, of.figures(name))
	}
	if inline := d.inline.figures(inlineName); inline != (OutcomeFigures{Limit: inlineName}) {
		list = append(list, inline)
	}
	return list, d.unmatched.Load()
}
