package policy

import (
	"sync/atomic"

	"github.com/weir-counter/weir"
)

// Live is a Set at work on an engine. It is safe for many goroutines.
//
// What a key has used of a policy is kept by the engine, by the policy's name: another
// Set changes the limits, and grants no fresh allowance. So does taking a policy out and
// putting it back.
type Live struct {
	engine     *weir.Engine
	bound      atomic.Pointer[bound]
	inline     inlineLimits
	hitsFailed atomic.Uint64
}

// bound is a Set with the engine's limits for it.
type bound struct {
	set      *Set
	policies []boundPolicy // of set.policies, by place
}

type boundPolicy struct {
	limit     *weir.KeyedLimit
	overrides map[string]*weir.KeyedLimit // by counted key; nil: none
	hits      hitKeys
}

// NewLive puts s to work on e. A nil Set has no policies: then only requests that bring
// a limit along have one.
func NewLive(e *weir.Engine, s *Set) (*Live, error) {
	l := &Live{engine: e}
	return l, l.Replace(s)
}

// Replace puts s in the place of the Set in use: requests that are under way keep the old
// one, later ones have the new one. An error, an engine that knows too many names of limits,
// changes nothing.
func (l *Live) Replace(s *Set) error {
	if s == nil {
		s = newSet(nil, contentHash{})
	}
	made := &bound{set: s, policies: make([]boundPolicy, len(s.policies))}
	for i := range s.policies {
		if err := made.policies[i].bind(l.engine, &s.policies[i]); err != nil {
			return err
		}
	}
	l.bound.Store(made)
	return nil
}

func (b *boundPolicy) bind(e *weir.Engine, p *Policy) (err error) {
	if b.limit, err = e.Limit(p.Name, p.Limit); err != nil {
		return err
	}
	b.hits = newHitKeys(p.Name)
	if len(p.Overrides) == 0 {
		return nil
	}
	b.overrides = make(map[string]*weir.KeyedLimit, len(p.Overrides))
	for _, o := range p.Overrides {
		if b.overrides[o.Key], err = e.Limit(p.Name, o.Limit); err != nil {
			return err
		}
	}
	return nil
}

// Set is the Set in use, never nil.
func (l *Live) Set() *Set { return l.bound.Load().set }

// Limit is the engine's limit of a policy in use, to ask who uses it most; it has the
// policy's own limit, not its overrides.
func (l *Live) Limit(name string) (kl *weir.KeyedLimit, ok bool) {
	b := l.bound.Load()
	at, ok := b.set.names[name]
	if !ok {
		return nil, false
	}
	return b.policies[at].limit, true
}

// HitsFailed is how many hits of limit:NAME:... the engine refused, as it does while its
// journal is behind. The decisions stood, those counts are too low by as much.
func (l *Live) HitsFailed() uint64 { return l.hitsFailed.Load() }
