package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// HitPrefix begins the keys that decisions are counted under: limit:NAME:allowed, :denied
// and :shadow_denied, :warned beside :allowed, and of some limits with :VALUES after that (Request.Values). A server takes hits of such keys from nobody else, so that the
// counts are true. The engine counts them apart: they are not among all hits.
const HitPrefix = weir.SeparatePrefix

// hitKeys are the keys that a limit's decisions are counted under, made once.
type hitKeys struct{ allowed, denied, shadowDenied, warned string }

func newHitKeys(name string) hitKeys {
	return hitKeys{HitPrefix + name + ":allowed", HitPrefix + name + ":denied", HitPrefix + name + ":shadow_denied", HitPrefix + name + ":warned"}
}

// of is the key that a result is counted under; "" for none.
func (h *hitKeys) of(r *Result, allowed bool) string {
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

// decided is the end of a decision that may have taken: it counts, and keys that were denied are banned.
func (l *Live) decided(d *Decision) {
	l.countHits(d)
	l.banDenied(d)
}

// countHits counts what was decided. A hit that the engine refuses changes no decision:
// a counter that is behind must not shut the door, nor open it.
//
// What can never pass is a mistake of the caller: it is no decision.
func (l *Live) countHits(d *Decision) {
	if d.Never {
		return
	}
	for i := range d.Results {
		r := &d.Results[i]
		key := d.hits[i].of(r, d.Allowed)
		if key == "" {
			continue
		}
		l.countHit(key)
		if r.global != nil && d.Allowed && r.Allowed {
			l.countHitsOf(r.counted, r.N)
		}
		if r.Warning && d.Allowed {
			l.countHit(d.hits[i].warned)
		}
		if r.values != "" {
			l.countHit(key + ":" + r.values)
		}
	}
}

func (l *Live) countHit(key string) { l.countHitsOf(key, 1) }

func (l *Live) countHitsOf(key string, n uint64) {
	if err := l.engine.HitN(key, n); err != nil {
		l.hitsFailed.Add(1)
	}
}
