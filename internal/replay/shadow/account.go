package shadow

import (
	"sync"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// account has the figures of one limit.
type account struct {
	Limit  // what is reported: the numbers as they are so far, the rest by finish
	policy policy.Policy
	shadow bool // it denies nothing
	rule   *rule
	rules  map[engine.Limit]*rule // of all its keys

	records map[string]*record
	// Records were dropped, records with denials were dropped, and the demand of some key was dropped: see ledger.
	dropped, thinned, cut bool

	plain       uint64 // requests of keys that have the policy's own limit
	first, last int64  // denials, Unix s; if there are any
	minute      minute
	asked       timeline // requests, decided ones
	denials     timeline
	peak        Peak // of keys that have the policy's own limit
}

func newAccount(e *engine.Engine, p policy.Policy, asWritten bool) (*account, error) {
	a := &account{
		policy: p, shadow: asWritten && p.Mode == policy.Shadow,
		rules: map[engine.Limit]*rule{}, records: map[string]*record{},
		Limit: Limit{
			Name: p.Name, Keys: p.Keys, By: p.By, Algorithm: p.Limit.Algorithm.String(), Mode: p.Mode.String(), Where: p.Where.String(),
			Needs: []Need{}, Timeline: Timeline{Requests: []uint64{}, Denied: []uint64{}}, Top: []Key{},
		},
	}
	var err error
	if a.rule, err = newRule(e, a, p.Limit, false); err != nil {
		return nil, err
	}
	a.Rule, a.Enforced = a.rule.report(), !a.shadow
	for _, o := range p.Overrides {
		if a.rules[o.Limit] != nil {
			continue
		}
		if a.rules[o.Limit], err = newRule(e, a, o.Limit, true); err != nil {
			return nil, err
		}
	}
	a.rules[p.Limit] = a.rule // an override that changes nothing counts as the policy
	return a, nil
}

// ask notes n requests of a key, before they are decided.
func (a *account) ask(r *record, at int64, n uint64) {
	a.Requests += n
	a.asked.add(at, n)
	r.requests += n
	r.add(at, n, &r.rule.reach)
	if r.rule != a.rule {
		return
	}
	a.plain += n
	if r.peak > a.peak.Requests {
		a.peak = Peak{r.peak, unix(r.peakAt), r.key}
	}
}

// deny notes n denials of a key.
func (a *account) deny(r *record, at int64, n uint64) {
	if a.Denied == 0 {
		a.first = at
	}
	if r.denied == 0 {
		a.DeniedKeys++
	}
	a.Denied += n
	a.last = at
	a.minute.add(at, n)
	a.denials.add(at, n)
	r.deny(at, n)
}

// clerk records what the judge decided: totals, and a record of each key. It has a goroutine of its own, so that the judge need not
// wait for it.
type clerk struct {
	Report              // the numbers as they are so far, the rest by report
	accounts []*account // in order of application
	ledger   ledger

	parts chan *part // from the judge
	ended sync.WaitGroup

	begun       bool
	first, last int64  // requests, Unix s
	unsaid      uint64 // requests whose answer has no status
	stranger    string // a key that no policy is for
	missed      missed
	problem     error // why the first undecided request is undecided
}

// clerkBehind is how many parts may wait for the clerk.
const clerkBehind = 4

// newClerk starts a clerk, which ends with close.
func newClerk(o *Options, accounts []*account) *clerk {
	c := &clerk{accounts: accounts, ledger: ledger{budget: o.Memory}, parts: make(chan *part, clerkBehind)}
	c.ended.Go(func() {
		for p := range c.parts {
			c.part(p)
			giveBack(p)
		}
	})
	return c
}

// close waits until all is written down.
func (c *clerk) close() {
	close(c.parts)
	c.ended.Wait()
}

func (c *clerk) part(p *part) {
	c.Unmatched += p.unmatched
	c.missed.add(p.missed)
	if c.stranger == "" {
		c.stranger = p.stranger
	}
	if c.problem == nil {
		c.problem = p.problem
	}
	from := 0
	for i := range p.asked {
		a := &p.asked[i]
		c.line(a, p.questions[from:a.questions])
		from = a.questions
	}
}

func (c *clerk) line(a *asked, questions []question) {
	c.time(a)
	if c.Requests += a.n; a.status == 0 {
		c.unsaid += a.n
	}
	switch {
	case a.undecided:
		c.Undecided += a.n
		for i := range questions {
			account, n := questions[i].rule.account, a.n*questions[i].times
			account.Requests += n
			account.Undecided += n
		}
		return
	case len(questions) == 0:
		c.Allowed += a.admitted
		return
	}
	c.Allowed += a.admitted
	c.Denied += a.n - a.admitted
	for i := range questions {
		c.settle(&questions[i], a)
	}
	c.ledger.keep(c.accounts, a.now)
}

// time notes when a line was decided.
func (c *clerk) time(a *asked) {
	if !c.begun {
		c.begun, c.first = true, a.at
		for _, account := range c.accounts {
			account.asked, account.denials = newTimeline(a.at), newTimeline(a.at)
		}
	}
	if a.at < a.now {
		c.Late++
		c.LatestSeconds = max(c.LatestSeconds, a.now-a.at)
	}
	c.first = min(c.first, a.at)
	c.last = a.now
}

// settle records a decision of one limit.
func (c *clerk) settle(q *question, a *asked) {
	c.ledger.find(q.check)
	account, r := q.rule.account, q.record
	before := cap(r.series)
	account.ask(r, a.now, a.n*q.times)
	c.ledger.bytes += int64(cap(r.series) - before)
	elsewhere := uint64(0)
	if refused := a.n - a.admitted; q.denied < refused {
		elsewhere = refused - q.denied
	}
	account.Elsewhere += elsewhere * q.times
	account.Allowed += (a.n - q.denied - elsewhere) * q.times
	if q.denied > 0 {
		account.deny(r, a.now, q.denied*q.times)
	}
}

// rule is a limit that keys have, by a policy or one of its overrides.
type rule struct {
	limit    engine.Limit
	keyed    *engine.KeyedLimit
	account  *account
	override bool
	interval time.Duration // that has at most the burst
	reach
}

func newRule(e *engine.Engine, a *account, l engine.Limit, override bool) (*rule, error) {
	keyed, err := e.Limit(a.policy.Name, l)
	if err != nil {
		return nil, err
	}
	plan, err := limit.New(l)
	if err != nil {
		return nil, err
	}
	recent := int64((plan.Interval() - 1) / time.Second)
	return &rule{
		limit: plan.Limit(), keyed: keyed, account: a, override: override, interval: plan.Interval(),
		reach: reach{recent: recent, memory: 2*recent + 1, most: plan.Limit().Burst},
	}, nil
}

// record has the figures of one counted key of a limit. It belongs to the clerk's goroutine.
type record struct {
	key  string
	rule *rule
	gone bool // dropped by the ledger: a router's check must look the key up again

	late bool // an earlier record of the key may have been dropped: requests before its first denial may be missing

	requests, denied uint64
	first, last      int64 // denials, Unix s; if denied > 0
	stretchFrom      int64 // the first denial of the stretch under way
	stretch          int64 // the longest stretch, s
	demand
}

// recordBytes is the memory of a record without its key and series: itself, and its place in a map that is two thirds full.
const recordBytes = int64(unsafe.Sizeof(record{})) + int64(unsafe.Sizeof("")+unsafe.Sizeof(uintptr(0))+1)*3/2

func (r *record) bytes() int64 { return recordBytes + int64(len(r.key)+cap(r.series)) }

// deny notes n denials. A stretch goes on while each denial is within an interval of the one before.
func (r *record) deny(at int64, n uint64) {
	switch {
	case r.denied == 0:
		r.first, r.stretchFrom = at, at
	case at-r.last > r.rule.recent+1:
		r.stretchFrom = at
	}
	r.denied += n
	r.last = at
	r.stretch = max(r.stretch, at-r.stretchFrom)
}
