package envoy

import (
	"math"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	deciding "github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/policy"
)

// purpose says how a request is answered.
type purpose uint8

const (
	take    purpose = iota // ShouldRateLimit
	check                  // CheckRateLimit: nothing is taken
	report                 // Report: it has happened already, and is taken as far as it is there
	reserve                // Reserve: it is taken, and settled later
)

// ask is the memory of one request.
type ask struct {
	purpose  purpose
	parts    []part // of its descriptors
	entries  []ConfigEntry
	requests []admit.Request
	refunds  []admit.Request
	decision admit.Decision
	rest     admit.Decision
	fields   ratelimitfields.List
	quotas   int    // parts that are quotas and may deny
	checks   bool   // a part asks only
	bytes    []byte // of the answer, and of a message within
	inner    []byte
	blocked  bool // a part that none passes, and that denies

	reservation deciding.Reservation // of reserve; its ID is set once it is made
}

// part is one descriptor.
type part struct {
	limit    *ready // nil: it has none, or one that it brings along
	shown    *shown
	inline   admit.Limit // that it brings along
	key      string
	values   string // that the decision is counted by too; "": none
	n        uint64
	at       int           // its place in the requests; -1: it is not asked
	result   *admit.Result // what was decided; nil: it was not asked, or no policy is for it
	policies bool          // the policies for the key decide
	quota    bool          // it denies only if all quotas of the request do
	shadow   bool          // it never denies
	over     bool          // the limit itself denies it
	usedUp   bool          // the rest of its limit was taken
	refund   bool          // it gives hits back
	back     admit.Result  // result of a refund
}

var asks = sync.Pool{New: func() any { return new(ask) }}

func newAsk(by purpose) *ask {
	a := asks.Get().(*ask)
	a.purpose, a.quotas, a.checks, a.blocked, a.reservation = by, 0, false, false, deciding.Reservation{}
	a.parts, a.requests, a.refunds = a.parts[:0], a.requests[:0], a.refunds[:0]
	return a
}

// free gives the memory back.
func (a *ask) free() {
	clear(a.parts)
	clear(a.requests)
	clear(a.refunds)
	clear(a.entries[:cap(a.entries)])
	asks.Put(a)
}

// maxDescriptors bounds a request; the engine asks 64 limits at once at most.
const maxDescriptors = 256

// read finds the limits of a request.
func (a *ask) read(req *pb.RateLimitRequest, l *limits) error {
	switch n := len(req.Descriptors); {
	case req.Domain == "":
		return invalid(api.CodeInvalidParameter, "domain", "the request has no domain: Envoy's filter has a setting of that name")
	case n == 0:
		return invalid(api.CodeInvalidParameter, "descriptors", "the request has no descriptors")
	case n > maxDescriptors:
		return invalid(api.CodeInvalidParameter, "descriptors", "more than 256 descriptors")
	}
	replaces := false
	for _, d := range req.Descriptors {
		p := part{at: -1, n: uint64(max(1, req.HitsAddend)), refund: d.GetIsNegativeHits()}
		if own := d.GetHitsAddend(); own != nil {
			p.n = own.Value
		}
		if a.purpose == check {
			p.n = 1
		}
		if err := a.find(&p, req.Domain, d, l); err != nil {
			return err
		}
		replaces = replaces || p.limit != nil && len(p.limit.Replaces) > 0
		a.parts = append(a.parts, p)
	}
	if replaces {
		a.replace()
	}
	return nil
}

// find is the limit of a descriptor, and the key that it counts. Without limits of its own the listener asks the
// policies that are for the key.
func (a *ask) find(p *part, domain string, d *ratelimit.RateLimitDescriptor, l *limits) error {
	a.entries = a.entries[:0]
	for _, e := range d.GetEntries() {
		a.entries = append(a.entries, ConfigEntry{Key: e.GetKey(), Value: e.GetValue()})
	}
	p.key = LimitKey(domain, a.entries)
	switch own := d.GetLimit(); {
	case own != nil && (l == nil || l.config.Has(domain)):
		return p.override(own)
	case l == nil:
		p.policies = true
		return nil
	}
	found := l.config.Find(domain, a.entries)
	if found == nil {
		return nil
	}
	p.limit = l.ready[found.ID]
	p.shown, p.shadow, p.quota = p.limit.shown, found.Shadow, found.Quota
	if p.limit.counts {
		p.values = found.Values(a.entries)
	}
	if p.limit.shares {
		p.key = LimitKey(domain, a.entries)
	}
	return nil
}

// override is a limit that Envoy brings along.
func (p *part) override(own *ratelimit.RateLimitDescriptor_RateLimitOverride) error {
	unit, multiplier := ConfigUnit(min(own.GetUnit(), math.MaxUint8)), max(1, own.GetUnitMultiplier().GetValue())
	if unit.Duration() == 0 {
		return invalid(api.CodeInvalidLimit, "limit", "a descriptor brings a limit along without a unit")
	}
	if err := CheckRate(own.GetRequestsPerUnit(), unit, multiplier); err != nil {
		return invalid(api.CodeInvalidLimit, "limit", "a descriptor brings a limit along: "+err.Error())
	}
	l := ConfigLimit{Requests: own.GetRequestsPerUnit(), Unit: unit, Multiplier: multiplier}
	p.shown = newShown("", l.Requests, pb.RateLimitResponse_RateLimit_Unit(unit), multiplier)
	p.inline = admit.Limit{N: uint64(l.Requests), Per: l.Period()}
	return nil
}

// replace leaves out the limits that others of the request replace.
func (a *ask) replace() {
	gone := map[string]bool{}
	for _, p := range a.parts {
		if p.limit != nil {
			for _, label := range p.limit.Replaces {
				gone[label] = true
			}
		}
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.limit != nil && !p.limit.Unlimited && p.limit.Label != "" && gone[p.limit.Label] {
			*p = part{at: -1, n: p.n, key: p.key} // who may not decide of the key is refused all the same
		}
	}
}

// prepare makes the requests of the service.
func (a *ask) prepare(by admit.Algorithm) {
	for i := range a.parts {
		p := &a.parts[i]
		if p.quota && !p.shadow && !p.refund {
			a.quotas++
		}
	}
	for i := range a.parts {
		p := &a.parts[i]
		if !p.policies && p.shown == nil || p.limit != nil && p.limit.Unlimited {
			continue
		}
		if p.refund {
			p.at = len(a.refunds)
			a.refunds = append(a.refunds, p.request(by))
			continue
		}
		a.checks = a.checks || p.n == 0
		if !p.policies && p.shown.requests == 0 {
			p.over = true
			a.blocked = a.blocked || !p.shadow
			continue
		}
		r := p.request(by)
		r.Shadow = a.purpose == report || p.quota && a.quotas > 1
		p.at = len(a.requests)
		a.requests = append(a.requests, r)
	}
}

// request is what the service is asked for a part.
func (p *part) request(by admit.Algorithm) admit.Request {
	r := admit.Request{Key: p.key, N: p.n}
	switch {
	case p.policies:
	case p.limit != nil:
		r.Prepared, r.Limit, r.Values = p.limit.prepared, p.limit.Name, p.values
	default:
		p.inline.Algorithm = by
		r.Inline = &p.inline
	}
	return r
}

// decide asks the service, and notes what is over.
func (a *ask) decide(s *service.Service, c access.Caller) (denied bool, err error) {
	if err := a.permit(s, c); err != nil {
		return false, err
	}
	if len(a.refunds) > 0 {
		if err := a.giveBack(s, c); err != nil {
			return false, err
		}
	}
	// A single Take can't report whether all quotas are used up, or whether a limit that is only asked has anything left.
	// So a peek asks for both first.
	if a.purpose == check || a.purpose != report && (a.blocked || a.checks || a.quotas > 1) {
		if denied, err = a.allow(s, c, true); err != nil || denied || a.purpose == check || a.asksOnly() {
			return denied, err
		}
	}
	if denied, err = a.allow(s, c, false); err != nil || a.purpose == reserve {
		return denied, err
	}
	return denied, a.useUp(s, c)
}

// permit fails unless the caller may ask for the descriptors without a limit. A caller that may not must not even learn
// that there is none.
func (a *ask) permit(s *service.Service, c access.Caller) error {
	if !s.Locked() {
		return nil
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.at < 0 {
			if err := s.PermitDecision(c, p.key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *ask) asksOnly() bool {
	for i := range a.requests {
		if a.requests[i].N > 0 {
			return false
		}
	}
	return true
}

func (a *ask) allow(s *service.Service, c access.Caller, peek bool) (denied bool, err error) {
	a.decision.Never = false
	err = a.ask(s, c, peek)
	if a.purpose == reserve && a.decision.Never { // an estimate above a burst, which would never pass
		for _, r := range a.decision.Results {
			if q := &a.requests[r.Asked]; r.Never {
				q.N = min(q.N, max(1, r.Limit.Burst/2))
			}
		}
		a.decision.Never = false
		err = a.ask(s, c, peek)
	}
	if err != nil && !a.decision.Never {
		return false, err
	}
	if denied = a.judge(); denied && len(a.decision.Denial) == 0 { // a peek, or more than the burst
		s.NoteDenial(a.requests, &a.decision)
	}
	return denied, nil
}

func (a *ask) ask(s *service.Service, c access.Caller, peek bool) (err error) {
	if a.purpose == reserve && !peek {
		a.reservation.ID, _, err = s.Reserve(c, a.requests, a.reservation, &a.decision)
		return err
	}
	return s.Allow(c, a.requests, peek, &a.decision)
}

// judge notes which parts are over, and reports whether the request is denied. Quotas deny only together.
func (a *ask) judge() (denied bool) {
	a.assign()
	quotasOver := 0
	for i := range a.parts {
		p := &a.parts[i]
		if r := p.result; r != nil && !p.refund {
			p.over = !r.Allowed || p.n == 0 && r.Remaining == 0
		}
		switch {
		case !p.over || p.shadow || a.purpose == report:
		case p.quota:
			quotasOver++
		default:
			denied = true
		}
	}
	return denied || quotasOver > 0 && quotasOver == a.quotas
}

// assign gives each part its result. If several policies decided, that is the first that denies, else the one that
// leaves least.
func (a *ask) assign() {
	for i := range a.parts {
		if !a.parts[i].refund {
			a.parts[i].result = nil
		}
	}
	results, next := a.decision.Results, 0
	for i := range a.parts {
		p := &a.parts[i]
		if p.refund {
			continue
		}
		for ; p.at >= 0 && next < len(results) && results[next].Asked == p.at; next++ {
			r, have := &results[next], p.result
			switch {
			case p.policies && r.Mode == policy.Shadow && a.purpose != report:
			case have == nil, have.Allowed && !r.Allowed, have.Allowed == r.Allowed && r.Remaining < have.Remaining:
				p.result = r
			}
		}
		if p.policies && p.result != nil {
			p.shown = shownLimit(p.result)
		}
	}
}

// giveBack returns what descriptors with negative hits took, the newest admissions first, before anything is decided. A
// CheckRateLimit returns nothing.
func (a *ask) giveBack(s *service.Service, c access.Caller) error {
	if a.purpose == check {
		return nil
	}
	made, err := s.GiveBack(c, a.refunds)
	if err != nil {
		return err
	}
	for i := range a.parts {
		p := &a.parts[i]
		if !p.refund || p.at < 0 {
			continue
		}
		for _, m := range made {
			if have := p.result; m.Asked == p.at && (have == nil || m.Remaining < have.Remaining) {
				p.back = admit.Result{Name: m.Name, Key: m.Key, Limit: m.Limit, Verdict: m.Verdict}
				p.result = &p.back
			}
		}
		if p.policies && p.result != nil {
			p.shown = shownLimit(p.result)
		}
	}
	return nil
}

// useUp takes the rest of each limit that had less left than the request needs. What Envoy asks for at the end of a
// stream has already happened; without this it would not count at all. Limits that were not over stay unchanged.
func (a *ask) useUp(s *service.Service, c access.Caller) error {
	a.requests = a.requests[:0]
	for i := range a.parts {
		p := &a.parts[i]
		r := p.result
		if r == nil || !p.over || p.n < 2 || r.Remaining == 0 || p.policies {
			continue
		}
		p.usedUp = true
		rest := admit.Request{Key: p.key, N: r.Remaining, Rest: true}
		if p.limit != nil {
			rest.Prepared = p.limit.prepared
		} else {
			rest.Inline = &p.inline
		}
		a.requests = append(a.requests, rest)
	}
	if len(a.requests) == 0 {
		return nil
	}
	if err := s.UseUp(c, a.requests, &a.rest); err != nil {
		return err
	}
	next := 0
	for i := range a.parts {
		if p := &a.parts[i]; p.usedUp {
			p.result.Reset = a.rest.Results[next].Reset
			next++
		}
	}
	return nil
}
