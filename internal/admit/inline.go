package admit

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Limit, Algorithm and the algorithms come from package limit, for callers that make inline limits and need nothing else
// of it.
type (
	Limit     = limit.Limit
	Algorithm = limit.Algorithm
)

// The algorithms.
const (
	Window = limit.Window
	Fixed  = limit.Fixed
	GCRA   = limit.GCRA
)

const (
	// MaxInlineNames is how many names of inline limits may be in use in a Live. The engine must have names left for
	// the policies.
	MaxInlineNames = 1000

	// maxInlineMade is how many inline limits are kept ready.
	maxInlineMade = 10_000
)

// inlineLimits keeps the limits that requests bring along ready for further requests.
type inlineLimits struct {
	released atomic.Uint64 // how often release was called: a lastInline of before is no longer valid

	mu     sync.RWMutex // guards all below
	made   map[inlineID]*inlineLimit
	names  map[string]boundLimit // one limit of each name, which holds the name in the engine
	firsts map[string]string     // by name: the tenant that asked first
	owned  map[string]int        // names by tenant
}

// inlineID is an inline limit as it was asked for.
type inlineID struct {
	name  string // may be ""
	limit engine.Limit
}

type inlineLimit struct {
	boundLimit
	hits hitKeys
}

// lastInline is the inline limit of a Decision's last request. A caller that asks one limit for many keys then needs no
// look-up.
type lastInline struct {
	live     *Live
	id       inlineID
	made     *inlineLimit
	released uint64
}

func (l *Live) gatherInline(b *bound, r *Request, d *Decision) error {
	if at, taken := b.set.Place(r.Limit); taken {
		// A policy that a tenant put by API keeps nobody else from the name.
		_, matches := b.set.CountedKey(at, r.Key)
		if matches || b.set.At(at).Version == 0 || b.set.Counts(r.Limit, r.Key) == nil {
			return policy.Failure(api.CodeInvalidLimit, "limit", "limit %s is a policy: leave its numbers out, or give the request's own limit another name", r.Limit)
		}
	}
	last, id, released := &d.lastInline, inlineID{r.Limit, *r.Inline}, l.inline.released.Load()
	if last.live != l || last.released != released || last.id != id {
		made, err := l.inline.get(l, id, d.Tenant)
		if err != nil {
			return err
		}
		id.name = strings.Clone(id.name) // it may be a part of a large request
		*last = lastInline{l, id, made, released}
	}
	made := last.made
	if err := d.note(made.boundLimit, r.mode(policy.Enforce), r.Key, r.N, r.hits(&made.hits)); err != nil {
		return err
	}
	d.Results[len(d.Results)-1].Inline = true
	return nil
}

func (in *inlineLimits) get(l *Live, id inlineID, tenant string) (*inlineLimit, error) {
	in.mu.RLock()
	made := in.made[id]
	in.mu.RUnlock()
	if made != nil {
		return made, nil
	}
	if strings.HasPrefix(id.name, policy.ListenerPrefix) {
		return nil, policy.Failure(api.CodeInvalidLimit, "limit", "limit %s: names that begin with %s belong to limits of --rls-config: give the request's own limit another name", id.name, policy.ListenerPrefix)
	}
	// This comes first, so that an invalid limit leaves no name behind.
	if _, err := limit.New(id.limit); err != nil {
		return nil, policy.Failure(api.CodeInvalidLimit, "limit", "%s", strings.TrimPrefix(err.Error(), "limit: "))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.make(l, id, tenant)
}

// make makes the limit of an ID. The caller holds the lock.
func (in *inlineLimits) make(l *Live, id inlineID, tenant string) (*inlineLimit, error) {
	id.name = strings.Clone(id.name) // it may be a part of a large request
	name := id.name
	if name == "" {
		name = policy.InlinePrefix + id.limit.Algorithm.String() + "/" + units.FormatDuration(id.limit.Per)
	}
	full := func() bool { return !in.has(name) && len(in.names) >= MaxInlineNames }
	shareFull := func() bool {
		return !in.has(name) && tenant != "" && in.owned[tenant] >= Share(MaxInlineNames)
	}
	if full() || shareFull() {
		in.release()
	}
	if shareFull() {
		return nil, policy.Failure(api.CodeOverloaded, "limit", "%d names of inline limits are in use by %s, the share of an identity that is for some keys only: use fewer names and periods, or write policies", Share(MaxInlineNames), tenant)
	}
	if full() {
		return nil, policy.Failure(api.CodeOverloaded, "limit", "%d names of inline limits are in use: use fewer names and periods, or write policies", MaxInlineNames)
	}
	target, err := l.unwritten(name, InlineAway, id.limit)
	if err == nil {
		err = target.limit.Inline()
	}
	if err != nil {
		return nil, err
	}
	if in.names == nil {
		in.names, in.made = map[string]boundLimit{}, map[inlineID]*inlineLimit{}
		in.firsts, in.owned = map[string]string{}, map[string]int{}
	}
	if len(in.made) >= maxInlineMade {
		clear(in.made) // limits in use are soon made again
	}
	made := &inlineLimit{target, newHitKeys(policy.InlinePrefix + strings.TrimPrefix(name, policy.InlinePrefix))}
	in.made[id] = made
	if !in.has(name) {
		in.names[name] = target
		if tenant != "" {
			in.firsts[name] = tenant
			in.owned[tenant]++
		}
	} else {
		target.limit.Release() // the first one holds the name
	}
	return made, nil
}

// has reports whether a name is in use. The caller holds the lock.
func (in *inlineLimits) has(name string) bool { return in.names[name].limit != nil }

// release gives up the names that no key uses. The caller holds the lock.
func (in *inlineLimits) release() {
	in.released.Add(1)
	for name, held := range in.names {
		if !held.limit.InUse() {
			held.limit.Release()
			delete(in.names, name)
			if tenant := in.firsts[name]; tenant != "" {
				delete(in.firsts, name)
				if in.owned[tenant]--; in.owned[tenant] == 0 {
					delete(in.owned, tenant)
				}
			}
		}
	}
	clear(in.made) // limits in use are soon made again
}

// HitPrefix begins the keys under which decisions are counted:
//
//   - limit:NAME:allowed, and the same with :denied, :shadow_denied and :warned;
//   - limit:inline/NAME:allowed for limits that requests bring along, so that they differ from a policy of that name;
//   - for some limits, with :VALUES at the end (Request.Values).
//
// A server takes hits of such keys from no client, so that the counts are true. The engine counts them separately: they
// are not among all hits.
const HitPrefix = engine.SeparatePrefix

// hitKeys are the keys under which a limit's decisions are counted, made once.
type hitKeys struct{ allowed, denied, shadowDenied, warned string }

func newHitKeys(name string) hitKeys {
	return hitKeys{HitPrefix + name + ":allowed", HitPrefix + name + ":denied", HitPrefix + name + ":shadow_denied", HitPrefix + name + ":warned"}
}

// keyFor returns the key under which a result is counted; "" for none.
func (h *hitKeys) keyFor(r *Result, allowed bool) string {
	switch {
	case r.N == 0:
		return ""
	case !r.Allowed && r.Mode == policy.Shadow:
		return h.shadowDenied
	case !r.Allowed:
		return h.denied
	case allowed:
		return h.allowed
	}
	return "" // others denied, this one neither took nor denied
}

// finish counts a decision that may have taken something, and bans keys that it denied.
func (l *Live) finish(d *Decision) {
	l.countHits(d)
	if d.Tenant == "" {
		l.BanDenied(d, func() error { return nil })
	}
}

// countHits counts what was decided. If the engine refuses the hit, the decision stands: a journal that is behind must
// neither deny requests nor admit them. Requests that can never pass, or that could not be decided, are not counted.
func (l *Live) countHits(d *Decision) {
	if d.Never || d.Undecided() != nil {
		return
	}
	for i := range d.Results {
		r := &d.Results[i]
		key := d.hits[i].keyFor(r, d.Allowed)
		if key == "" {
			continue
		}
		l.countHit(key)
		if r.Warning && d.Allowed {
			l.countHit(d.hits[i].warned)
		}
		if r.values != "" {
			l.countHit(key + ":" + r.values)
		}
		if r.costs && d.Allowed && r.Allowed && !d.reserving {
			l.spend(r.Name, r.Key, r.N)
		}
	}
}

// spend counts what a key has used of a policy with a cost. Of a reservation it is what was settled.
func (l *Live) spend(name, key string, n uint64) {
	if spent := HitPrefix + name + ":" + SpentOutcome(key); n > 0 && len(spent) <= engine.MaxKeyBytes {
		if err := l.engine.HitN(spent, n); err != nil {
			l.hitsFailed.Add(1)
		}
	}
}

// SpentOutcome ends the key under which the use of a key of a policy with a cost is counted, after the name of the policy. A key that
// would be too long is not counted.
func SpentOutcome(key string) string { return "spent:" + key }

func (l *Live) countHit(key string) {
	if err := l.engine.Hit(key); err != nil {
		l.hitsFailed.Add(1)
	}
}
