package admit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// Take admits all requests, or none if a policy denies one of them. It counts a hit of limit:NAME:allowed or :denied
// for each limit that was asked; of a denial only for the limits that denied. What a policy.Shadow policy would have
// denied is counted as limit:NAME:shadow_denied, also if others denied the requests. Requests that can never pass
// (Decision.Never) are counted nowhere.
//
// The error is a *engine.Error, and nothing was taken:
//
//   - CodeInvalidKey: the key is too long, or does not fit the named policy.
//   - CodeInvalidLimit: there is no such policy, or the inline limit is invalid.
//   - CodeInvalidCount: the requests must pass more than engine.MaxChecks limits.
//   - CodeOverloaded: the engine has no memory for another key's limit.
//
// It waits for policies with a Wait; at most 10,000 do at a time, and others are denied. TakeNow does not.
func (l *Live) Take(reqs []Request, d *Decision) error {
	if wait, err := l.TakeOrWait(reqs, d); err != nil || !wait {
		return err
	}
	return l.Wait(reqs, d)
}

// TakeNow is Take that does not wait, whatever the policies say, and passes before those that do.
func (l *Live) TakeNow(reqs []Request, d *Decision) error {
	if err := l.decide(reqs, d, takesInTurn); err != nil {
		return err
	}
	l.finish(d)
	return nil
}

// purpose is why a decision is made.
type purpose uint8

const (
	peeks       purpose = iota
	takes               // unless others wait for the key
	takesInTurn         // whoever waits
)

// Peek says what Take would decide: it takes and counts nothing.
func (l *Live) Peek(reqs []Request, d *Decision) error {
	return l.decide(reqs, d, peeks)
}

func (l *Live) decide(reqs []Request, d *Decision, by purpose) error {
	d.reset()
	take := by != peeks
	b := l.bound.Load()
	for i := range reqs {
		d.asking = i
		if err := l.gather(b, &reqs[i], d); err != nil {
			d.reset()
			return err
		}
	}
	if len(d.checks) == 0 {
		d.Allowed, d.Unmatched = true, len(d.Excepted) == 0
		return nil
	}
	if l.banned(d) {
		return nil
	}
	if by == takes {
		if d.behind = l.standsBehind(d); d.behind >= 0 {
			return nil
		}
	}
	d.verdicts = slices.Grow(d.verdicts[:0], len(d.checks))[:len(d.checks)]
	var allowed bool
	var err error
	decided := false
	if d.leased && take {
		allowed, decided = l.cluster.Owners.Take(d.checks, d.verdicts)
	}
	switch {
	case decided:
	case d.byOwners:
		allowed, err = l.decideByOwners(d, take)
	default:
		allowed, d.at, err = l.engine.Limits().DecideAll(d.checks, nil, d.verdicts, take)
	}
	if err != nil {
		d.reset()
		return err
	}
	d.applyVerdicts(allowed)
	return nil
}

// gather notes the limits that one request must pass.
func (l *Live) gather(b *bound, r *Request, d *Decision) error {
	if len(r.Key) < 1 || len(r.Key) > engine.MaxKeyBytes {
		return policy.Failure(api.CodeInvalidKey, "key", "key of %d bytes: must have 1 to %d", len(r.Key), engine.MaxKeyBytes)
	}
	switch {
	case r.Prepared != nil:
		return r.Prepared.gather(r, d)
	case r.Inline != nil:
		return l.gatherInline(b, r, d)
	case r.Limit != "":
		at, ok := b.set.Place(r.Limit)
		if !ok {
			return &policy.NamedError{Name: r.Limit, Err: b.set.Unknown(r.Limit)}
		}
		matched, err := b.gather(at, r, d)
		if err == nil && !matched && !b.set.Excepts(at, r.Key) {
			err = &policy.NamedError{Name: r.Limit, Err: policy.Failure(api.CodeInvalidKey, "key", "key %q is not one of limit %s: its keys are %q", units.Excerpt(r.Key), r.Limit, b.set.At(at).Keys)}
		}
		return err
	}
	for _, at := range b.set.Candidates(r.Key) {
		place := int(at)
		matched, err := b.gather(place, r, d)
		if err != nil {
			return err
		}
		if matched && b.set.At(place).Last {
			return nil
		}
	}
	return nil
}

// gather notes the policy at a place, if it is for the request's key.
func (b *bound) gather(at int, r *Request, d *Decision) (matched bool, err error) {
	key, matched := b.set.CountedKey(at, r.Key)
	if !matched {
		if b.set.Excepts(at, r.Key) {
			d.Excepted = append(d.Excepted, b.set.At(at).Name)
		}
		return false, nil
	}
	p, written := &b.policies[at], b.set.At(at)
	if len(key) > engine.MaxKeyBytes {
		return false, policy.Failure(api.CodeInvalidKey, "key", "limit %s makes a key of %d bytes of key %q: at most %d", p.limit.Name(), len(key), units.Excerpt(r.Key), engine.MaxKeyBytes)
	}
	limit := b.limitOf(at, key)
	n, err := r.cost(written)
	if err != nil {
		return true, err
	}
	if err := d.note(limit, r.mode(written.Mode), key, n, &p.hits); err != nil {
		return true, err
	}
	result := &d.Results[len(d.Results)-1]
	result.warn, result.wait, result.denyFor, result.outcome = written.Warn, written.Wait, written.DenyFor, written.CountIf != nil
	result.costs = written.Cost != ""
	return true, nil
}

// note is add, up to what the engine asks at once.
func (d *Decision) note(limit boundLimit, mode policy.Mode, key string, n uint64, hits *hitKeys) error {
	if len(d.checks) == engine.MaxChecks {
		return policy.Failure(api.CodeInvalidCount, "checks", "more than %d limits to pass at once: ask for fewer keys in a request, or end a chain of policies with `last: true`", engine.MaxChecks)
	}
	d.add(limit, mode, key, n, hits)
	return nil
}

// Prepared is a limit that the caller keeps ready, in addition to the policies of the file. A listener with limits in
// its own format uses it. A Request has it in place of policies.
type Prepared struct {
	boundLimit
	live *Live
	name string
	mode policy.Mode
	hits hitKeys
}

// Prepare makes a limit ready. What a key has used of it is kept by its name: prepared again with
// other numbers, it grants no fresh allowance. Release must follow once it is asked no more. The error is a
// *engine.Error: the limit is invalid, or the engine knows too many names.
func (l *Live) Prepare(name string, rule Limit, mode policy.Mode) (*Prepared, error) {
	made, err := l.unwritten(name, name, rule)
	if err != nil {
		return nil, err
	}
	return &Prepared{boundLimit: made, live: l, name: name, mode: mode, hits: newHitKeys(name)}, nil
}

// Use has Live.Limit find the limit by its name, in place of an earlier one.
func (p *Prepared) Use() { p.live.prepared.Store(p.name, p) }

// Release lets the limit go. Requests under way may still have it.
func (p *Prepared) Release() {
	p.live.prepared.CompareAndDelete(p.name, p)
	p.limit.Release()
}

// preparedLimit is the engine's limit of a name that is Prepared, and in use.
func (l *Live) preparedLimit(name string) (kl *engine.KeyedLimit, ok bool) {
	p, ok := l.prepared.Load(name)
	if !ok {
		return nil, false
	}
	return p.(*Prepared).limit, true
}

// PreparedByOne calls f with the names of limits that are Prepared and in use, and that one node decides at a time.
func (l *Live) PreparedByOne(f func(name string)) {
	l.prepared.Range(func(name, p any) bool {
		if e := p.(*Prepared).elsewhere; e != nil && e != noPart {
			f(name.(string))
		}
		return true
	})
}

// gather notes the limit of a request that has one ready.
func (p *Prepared) gather(r *Request, d *Decision) error {
	if err := d.note(p.boundLimit, r.mode(p.mode), r.Key, r.N, r.hits(&p.hits)); err != nil {
		return err
	}
	d.countBy(r.Values)
	return nil
}

// Cost is how much of something a request needs, such as tokens: a policy with that Policy.Cost takes it in place of Request.N.
type Cost struct {
	Field string
	N     uint64
}

// MaxCosts is how many costs one request has.
const MaxCosts = 8

// Requests names, among costs, what policies without a Policy.Cost take in place of Request.N.
const Requests = "requests"

// costNamed is the cost of a name.
func costNamed(costs []Cost, name string) (n uint64, found bool) {
	for i := range costs {
		if costs[i].Field == name {
			return costs[i].N, true
		}
	}
	return 0, false
}

// cost is what a policy takes of a request. It is an error if the request does not say it: what is left out would cost nothing, or too much.
func (r *Request) cost(p *policy.Policy) (uint64, error) {
	if r.N == 0 || p.Cost == "" && len(r.Costs) == 0 { // N of 0 asks only
		return r.N, nil
	}
	if n, found := costNamed(r.Costs, cmp.Or(p.Cost, Requests)); found {
		return n, nil
	}
	if p.Cost == "" {
		return r.N, nil
	}
	return 0, policy.Failure(api.CodeInvalidCount, "costs", "limit %s counts %s, and the request does not say how many: send for example \"costs\":{%q:1}", p.Name, p.Cost, p.Cost)
}

// Fits returns why a Set can't be in use on this node, whatever else is in use: it has limits over regions, and the
// node has no region. nil: it can.
func (l *Live) Fits(s *policy.Set) error {
	for i := range s.Len() {
		p := s.At(i)
		if _, _, err := l.Here(p, p.Limit); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}
