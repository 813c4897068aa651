package shadow

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// account is what is known of one limit.
type account struct {
	policy policy.Policy
	shadow bool // it denies nothing
	rule   *rule
	rules  map[weir.Limit]*rule // of all its keys

	records map[string]*record
	// dropped says that records were dropped, thinned that such had denials, and cut that
	// the demand of some key was: see ledger.
	dropped, thinned, cut bool

	requests  uint64
	allowed   uint64
	denied    uint64
	elsewhere uint64 // this limit would have let them through, another one did not
	undecided uint64
	plain     uint64 // of requests, those of keys that have the policy's own limit

	keys       uint64 // that asked
	deniedKeys uint64

	first, last int64 // denials, Unix s; if denied > 0
	minute      minute
	asked       timeline // requests, decided ones
	timeline    timeline // denials

	peak   uint64 // of the keys that have the policy's own limit
	peakAt int64
	peakOf string
}

func newAccount(e *weir.Engine, p policy.Policy, asWritten bool) (*account, error) {
	a := &account{
		policy: p, shadow: asWritten && p.Mode == policy.Shadow,
		rules: map[weir.Limit]*rule{}, records: map[string]*record{},
	}
	var err error
	if a.rule, err = newRule(e, a, p.Limit, false); err != nil {
		return nil, err
	}
	for _, o := range p.Overrides {
		if a.rules[o.Limit], err = newRule(e, a, o.Limit, true); err != nil {
			return nil, err
		}
	}
	a.rules[p.Limit] = a.rule // an override that changes nothing is none
	return a, nil
}

// ask notes n requests of a key, before they are decided.
func (a *account) ask(r *record, at int64, n uint64) {
	a.requests += n
	a.asked.add(at, n)
	r.requests += n
	r.add(at, n, &r.rule.reach)
	if r.rule != a.rule {
		return
	}
	a.plain += n
	if r.peak > a.peak {
		a.peak, a.peakAt, a.peakOf = r.peak, r.peakAt, r.key
	}
}

// undecide notes n requests that were not decided.
func (a *account) undecide(n uint64) {
	a.requests += n
	a.undecided += n
}

// deny notes n denials of a key.
func (a *account) deny(r *record, at int64, n uint64) {
	if a.denied == 0 {
		a.first = at
	}
	if r.denied == 0 {
		a.deniedKeys++
	}
	a.denied += n
	a.last = at
	a.minute.add(at, n)
	a.timeline.add(at, n)
	r.deny(at, n)
}
