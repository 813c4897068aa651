package server

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

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
	desc     *prometheus.Desc

	unmatched     atomic.Uint64 // requests that no policy is for
	unmatchedDesc *prometheus.Desc
}

// outcomes counts the decisions of one policy.
type outcomes struct{ allowed, denied, shadowDenied atomic.Uint64 }

func newDecisions(policies *policy.Live) *decisions {
	d := &decisions{policies: policies, unmatchedDesc: prometheus.NewDesc("weir_allow_unmatched_total",
		"Requests that were allowed because no policy is for any of their keys: a slip in a key or a pattern shows here.", nil, nil), desc: prometheus.NewDesc("weir_limit_decisions_total",
		"Decisions of limits: allowed, denied, or shadow_denied by a limit that is not enforced.", []string{"limit", "outcome"}, nil)}
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

// Describe implements prometheus.Collector.
func (d *decisions) Describe(out chan<- *prometheus.Desc) {
	out <- d.desc
	out <- d.unmatchedDesc
}

// Collect implements prometheus.Collector.
func (d *decisions) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(d.unmatchedDesc, prometheus.CounterValue, float64(d.unmatched.Load()))
	for name, of := range *d.byName.Load() {
		for outcome, n := range map[string]uint64{
			"allowed": of.allowed.Load(), "denied": of.denied.Load(), "shadow_denied": of.shadowDenied.Load(),
		} {
			out <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(n), name, outcome)
		}
	}
}
