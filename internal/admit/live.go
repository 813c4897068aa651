// Package admit admits requests, or denies them, by the policies of package policy. A Live is a Set of them at work on
// an engine. Take asks every policy that is for a request's key, all or none. Peek takes nothing, and Watch follows
// changes of the file. What else changes how much a key has used is here too: refunds, grants, resets, reservations,
// permits, bans.
//
// If other nodes decide a limit, a Cluster reaches them. Requests are asked there after the limits that are decided here
// (owners_decision.go).
package admit

import (
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// Live is a Set at work on an engine. It is safe for many goroutines.
//
// The engine keeps what a key has used of a policy, by the policy's name. Another Set changes the limits, and grants no
// fresh allowance. The same holds for a policy that is removed and added again.
type Live struct {
	engine     *engine.Engine
	cluster    Cluster
	bound      atomic.Pointer[bound]
	changing   sync.Mutex  // guards file and kept
	file, kept *policy.Set // that the one in use is made of; kept may be nil
	keptFirst  bool        // where both have a name, the policy of kept is in use
	inline     inlineLimits
	lines      lines
	prepared   sync.Map // name to *Prepared: those in use
	hitsFailed atomic.Uint64
	bansFailed atomic.Uint64
	strictLost atomic.Uint64
	dropped    atomic.Pointer[[]Dropped]

	counting sync.Mutex
	away     map[string]*awayCounts // by policy
}

// bound is a Set with the engine's limits for it.
type bound struct {
	set      *policy.Set
	policies []boundPolicy // of set.policies, by place
}

type boundPolicy struct {
	boundLimit
	overrides map[string]boundLimit // by counted key; nil: none
	ranged    []boundLimit          // by place among the policy's overrides; nil: none has a range
	hits      hitKeys
}

// limitOf is the limit of a counted key of the policy at a place.
func (b *bound) limitOf(place int, counted string) boundLimit {
	p := &b.policies[place]
	if other, ok := p.overrides[counted]; ok {
		return other
	}
	if p.ranged != nil {
		if at, ok := b.set.Ranged(place, counted); ok {
			return p.ranged[at]
		}
	}
	return p.boundLimit
}

type boundLimit struct {
	limit     *engine.KeyedLimit
	elsewhere *elsewhere // nil: it is decided here, whatever the key
}

// NewLive puts s to work on e. A nil Set has no policies: then only requests that bring a limit along have one.
func NewLive(e *engine.Engine, s *policy.Set) (*Live, error) { return NewClusterLive(e, s, Cluster{}) }

// NewClusterLive is NewLive on a node of a cluster.
func NewClusterLive(e *engine.Engine, s *policy.Set, c Cluster) (*Live, error) {
	l := &Live{engine: e, cluster: c}
	return l, l.Replace(s)
}

// Replace puts s in the place of the file's Set in use. Present requests keep the old one, later ones have the new one.
// If the engine knows too many names of limits, or a node of no region gets limits over regions, Replace fails and
// changes nothing.
func (l *Live) Replace(s *policy.Set) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if s == nil {
		s = policy.Join()
	}
	return l.compose(s, l.kept, l.keptFirst)
}

// Keep replaces the policies that were put by API with s; nil: there are none. The file's policies stay. If both have a
// policy of the same name, the one of s is in use if first, else the one of the file. Errors are as for Replace.
func (l *Live) Keep(s *policy.Set, first bool) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	return l.compose(l.file, s, first)
}

// compose puts in use what the file and the API have.
func (l *Live) compose(file, kept *policy.Set, keptFirst bool) error {
	if err := l.use(file.With(kept, keptFirst)); err != nil {
		return err
	}
	l.file, l.kept, l.keptFirst = file, kept, keptFirst
	return nil
}

// use puts a Set in use.
func (l *Live) use(s *policy.Set) error {
	made := &bound{set: s, policies: make([]boundPolicy, s.Len())}
	for i := range made.policies {
		if err := l.bind(&made.policies[i], s.At(i)); err != nil {
			return err
		}
	}
	l.noteDropped(l.bound.Swap(made), s)
	return nil
}

func (l *Live) bind(b *boundPolicy, p *policy.Policy) (err error) {
	if b.boundLimit, err = l.bindLimit(p, p.Limit); err != nil {
		return err
	}
	b.hits = newHitKeys(p.Name)
	if len(p.Overrides) == 0 {
		return nil
	}
	b.overrides = map[string]boundLimit{}
	made := map[engine.Limit]boundLimit{} // ranges have few limits
	for i, o := range p.Overrides {
		other, again := made[o.Limit]
		if !again {
			if other, err = l.bindLimit(p, o.Limit); err != nil {
				return err
			}
			made[o.Limit] = other
		}
		if !o.Range.IsValid() {
			b.overrides[o.Key] = other
			continue
		}
		if b.ranged == nil {
			b.ranged = make([]boundLimit, len(p.Overrides))
		}
		b.ranged[i] = other
	}
	return nil
}

func (l *Live) bindLimit(p *policy.Policy, rule engine.Limit) (b boundLimit, err error) {
	rule, ok, err := l.Here(p, rule)
	if err != nil {
		return b, err
	}
	if b.limit, err = l.limit(p.Where, p.Name, rule); err != nil {
		return b, err
	}
	if !ok {
		b.elsewhere = noPart
		return b, nil
	}
	if p.Where.ByOne() {
		b.elsewhere = l.decidedByOne(p.Name, p.Where, p.Away)
	}
	return b, nil
}

// Set is the Set in use, never nil.
func (l *Live) Set() *policy.Set { return l.bound.Load().set }

// Limit returns the engine's limit of a policy in use, or of a Prepared limit, for questions about who uses it most. It has
// the policy's own limit, not its overrides.
func (l *Live) Limit(name string) (kl *engine.KeyedLimit, ok bool) {
	b := l.bound.Load()
	at, ok := b.set.Place(name)
	if !ok {
		return l.preparedLimit(name)
	}
	return b.policies[at].limit, true
}

// HitsFailed returns how many hits of limit:NAME:... the engine refused, as it does while its journal is behind. The
// decisions stood, but those counts are too low by as much.
func (l *Live) HitsFailed() uint64 { return l.hitsFailed.Load() }

// Here returns the limit by which this node decides for a policy's limit, its own or an override's. If regions have
// parts of it, this is the part of this node's region. ok is false if the region has none.
func (l *Live) Here(p *policy.Policy, rule engine.Limit) (here engine.Limit, ok bool, err error) {
	if p.Parts == nil || l.cluster.Whole {
		return rule, true, nil
	}
	if l.cluster.Region == "" {
		return rule, false, policy.Failure(api.CodeInvalidLimit, "where", "limit %s in line %d is over regions, and this server counts for none: start it with --region, or write another where", p.Name, p.Line)
	}
	for _, part := range policy.PartsOf(rule.Burst, p.Parts) {
		if part.Region == l.cluster.Region && part.Burst > 0 {
			return policy.PartOf(rule, part.Burst), true, nil
		}
	}
	return rule, false, nil
}

// Region is the region that this node counts for; "": none.
func (l *Live) Region() string { return l.cluster.Region }

// noPart stands for the node that decides where this region has no part of a limit.
var noPart = &elsewhere{}
