package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/policy/pattern"
)

// Take admits all requests, or none if a policy denies one of them, and counts a hit of
// limit:NAME:allowed or :denied for each limit that was asked: of a denial for those that
// denied alone. What a Shadow policy would have denied is counted as
// limit:NAME:shadow_denied, also if the requests were denied by others. Requests that can
// never pass (Decision.Never) are counted nowhere.
//
// The error is a *weir.Error, and nothing was taken: CodeInvalidKey for a key that is too
// long, or does not fit the policy that was named; CodeInvalidLimit for a policy that there
// is not, or an inline limit that can't be; CodeInvalidCount for more than weir.MaxChecks
// limits to pass; CodeOverloaded if the engine has no room for another key's limit.
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
	l.decided(d)
	return nil
}

// how a decision is made.
type how uint8

const (
	peeks       how = iota
	takes           // unless others wait for the key
	takesInTurn     // whoever waits
)

// Peek says what Take would decide: it takes and counts nothing.
func (l *Live) Peek(reqs []Request, d *Decision) error {
	return l.decide(reqs, d, peeks)
}

func (l *Live) decide(reqs []Request, d *Decision, by how) error {
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
		d.Allowed, d.Unmatched = true, true
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
	if d.global {
		if err := l.askRegions(d, take); err != nil {
			d.reset()
			return err
		}
	}
	d.verdicts = slices.Grow(d.verdicts[:0], len(d.checks))[:len(d.checks)]
	var allowed bool
	var err error
	decided := false
	if d.leased && take {
		allowed, decided = l.cluster.Leased.Take(d.checks, d.verdicts)
	}
	switch {
	case decided:
	case d.apart:
		allowed, err = l.decideApart(d, take)
	default:
		allowed, d.at, err = limits.Of(l.engine).DecideAt(d.checks, d.beside, d.verdicts, take)
	}
	if err == nil && d.global {
		err = l.settleRegions(d, take)
	}
	if err != nil {
		d.reset()
		return err
	}
	d.settle(allowed)
	return nil
}

// gather notes the limits that one request must pass.
func (l *Live) gather(b *bound, r *Request, d *Decision) error {
	if len(r.Key) < 1 || len(r.Key) > weir.MaxKeyBytes {
		return failure(weir.CodeInvalidKey, "key", "key of %d bytes: must have 1 to %d", len(r.Key), weir.MaxKeyBytes)
	}
	switch {
	case r.Prepared != nil:
		return r.Prepared.gather(r, d)
	case r.Inline != nil:
		return l.gatherInline(b, r, d)
	case r.Limit != "":
		at, ok := b.set.names[r.Limit]
		if !ok {
			return &NamedError{r.Limit, b.set.unknown(r.Limit)}
		}
		matched, err := b.gather(at, r, d)
		if err == nil && !matched {
			err = &NamedError{r.Limit, failure(weir.CodeInvalidKey, "key", "key %q is not one of limit %s: its keys are %q", short(r.Key), r.Limit, b.set.policies[at].Keys)}
		}
		return err
	}
	for _, at := range b.set.index.Candidates(r.Key) {
		matched, err := b.gather(int(at), r, d)
		if err != nil {
			return err
		}
		if matched && b.set.policies[at].Last {
			return nil
		}
	}
	return nil
}

// gather notes the policy at a place, if it is for the request's key.
func (b *bound) gather(at int, r *Request, d *Decision) (matched bool, err error) {
	var took pattern.Captures
	if !b.set.patterns[at].Match(r.Key, &took) {
		return false, nil
	}
	key := b.set.templates[at].Key(r.Key, &took)
	p := &b.policies[at]
	if len(key) > weir.MaxKeyBytes {
		return false, failure(weir.CodeInvalidKey, "key", "limit %s makes a key of %d bytes of key %q: at most %d", p.limit.Name(), len(key), short(r.Key), weir.MaxKeyBytes)
	}
	if err := p.global.fits(key); err != nil {
		return false, err
	}
	limit := p.boundLimit
	if other, overridden := p.overrides[key]; overridden {
		limit = other
	}
	n, err := r.cost(&b.set.policies[at])
	if err != nil {
		return true, err
	}
	if err := d.note(limit, r.mode(b.set.policies[at].Mode), key, n, &p.hits); err != nil {
		return true, err
	}
	of := &b.set.policies[at]
	result := &d.Results[len(d.Results)-1]
	result.warn, result.wait, result.denyFor = of.Warn, of.Wait, of.DenyFor
	return true, nil
}

// note is add, up to what the engine asks at once.
func (d *Decision) note(limit boundLimit, mode Mode, key string, n uint64, hits *hitKeys) error {
	if len(d.checks) == weir.MaxChecks {
		return failure(weir.CodeInvalidCount, "checks", "more than %d limits to pass at once: ask for fewer keys in a request, or end a chain of policies with `last: true`", weir.MaxChecks)
	}
	d.add(limit, mode, key, n, hits)
	return nil
}

// unknown is the error of a policy's name that there is not.
func (s *Set) unknown(name string) error {
	const most = 20
	var names []string
	for _, p := range s.policies {
		names = append(names, p.Name)
	}
	own := ""
	if _, err := strconv.ParseUint(name, 10, 64); err == nil {
		own = "; a limit of the request's own needs per too: limit=" + short(name) + "&per=1m, or weir allow --n " + short(name) + " --per 1m"
	}
	if len(names) == 0 {
		return failure(weir.CodeInvalidLimit, "limit", "no limit %q: there are no policies%s", short(name), own)
	}
	guess, more := nearest.DidYouMean(name, names), ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return failure(weir.CodeInvalidLimit, "limit", "no limit %q%s; there are %s%s%s", short(name), guess, strings.Join(names, ", "), more, own)
}

// NamedError is the error of a request that names a policy that there is not, or whose keys the
// request's is none of. Its text tells names or keys of policies, which are not for everybody; it
// wraps a *weir.Error.
type NamedError struct {
	Name string // as the request has it
	err  error
}

func (e *NamedError) Error() string { return e.err.Error() }

// Unwrap is the *weir.Error.
func (e *NamedError) Unwrap() error { return e.err }

func failure(code weir.Code, field, format string, args ...any) error {
	return &weir.Error{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}
