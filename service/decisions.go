package service

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/policy"
)

// inlineName stands for all limits that requests bring along: their names are the
// clients' and may be many.
const inlineName = "(inline)"

// decisions counts decisions by policy and outcome. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
type decisions struct {
	policies *policy.Live
	byName   atomic.Pointer[map[string]*outcomes]
	adding   sync.Mutex // held to put another map in the place of byName

	unmatched atomic.Uint64 // requests that no policy is for
}

// outcomes counts the decisions of one policy.
type outcomes struct{ allowed, denied, shadowDenied atomic.Uint64 }

func newDecisions(policies *policy.Live) *decisions {
	d := &decisions{policies: policies}
	d.byName.Store(&map[string]*outcomes{})
	return d
}

// count counts a decision as its hits are: when others denied the request, a limit that
// did not has no part in it, and n = 0 asks only.
func (d *decisions) count(of *policy.Decision) {
	if of.Unmatched {
		d.unmatched.Add(1)
	}
	for i := range of.Results {
		r := &of.Results[i]
		switch {
		case r.N == 0:
		case !r.Allowed && r.Mode == policy.Shadow:
			d.of(r.Name).shadowDenied.Add(1)
		case !r.Allowed:
			d.of(r.Name).denied.Add(1)
		case of.Allowed:
			d.of(r.Name).allowed.Add(1)
		}
	}
}

func (d *decisions) of(name string) *outcomes {
	if _, known := d.policies.Limit(name); !known {
		name = inlineName
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

// Decisions is how often a policy decided how, since the start.
type Decisions struct {
	Limit                         string
	Allowed, Denied, ShadowDenied uint64
}

// Decisions lists them for metrics, with the requests that no policy was for.
func (s *Service) Decisions() (list []Decisions, unmatched uint64) {
	for name, of := range *s.decisions.byName.Load() {
		list = append(list, Decisions{name, of.allowed.Load(), of.denied.Load(), of.shadowDenied.Load()})
	}
	return list, s.decisions.unmatched.Load()
}
