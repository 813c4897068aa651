package shadow

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/policy"
)

// judge decides the requests in the order of the log, and passes them to the clerk. It belongs to one goroutine, except for now,
// which the engine reads, and what routers share.
type judge struct {
	engine   *engine.Engine
	now      atomic.Int64 // the time of the engine's limits, Unix s
	begun    bool
	live     *admit.Live    // of routers: the limits of a key, on an engine of its own where nothing is taken
	resolver *engine.Engine // that engine
	byName   map[string]*account
	clerk    *clerk

	checks   []engine.Check
	verdicts []engine.Verdict
}

func newJudge(o *Options) (j *judge, err error) {
	j = &judge{byName: map[string]*account{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	if j.resolver, err = engine.New(engine.Config{Partitions: 1, Memory: resolverMemory, LimitMemory: resolverMemory}); err != nil {
		return j, err
	}
	if j.live, err = admit.NewClusterLive(j.resolver, o.Policies, admit.Cluster{Whole: true}); err != nil {
		return j, err
	}
	j.engine, err = engine.New(engine.Config{
		LimitMemory: o.LimitMemory,
		Now:         func() time.Time { return time.Unix(j.now.Load(), 0) },
	})
	if err != nil {
		return j, err
	}
	var accounts []*account
	for _, p := range o.Policies.Policies() {
		a, err := newAccount(j.engine, p, o.AsWritten)
		if err != nil {
			return j, err
		}
		accounts = append(accounts, a)
		j.byName[p.Name] = a
	}
	j.clerk = newClerk(o, accounts)
	return j, nil
}

// resolverMemory is enough for an engine that keeps nothing.
const resolverMemory = 64 << 10

func (j *judge) close() (err error) {
	for _, e := range []*engine.Engine{j.engine, j.resolver} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// NewWorker implements replay.Lines.
func (j *judge) NewWorker() replay.LineWorker { return newRouter(j) }

// Take implements replay.Lines.
func (j *judge) Take(made any) error {
	p := made.(*part)
	from := 0
	for i := range p.asked {
		a := &p.asked[i]
		if err := j.line(p, a, p.routes[from:a.routes]); err != nil {
			return err
		}
		from = a.routes
	}
	j.clerk.parts <- p
	return nil
}

// line decides the requests of one line.
func (j *judge) line(p *part, a *asked, routes []*route) error {
	a.now = j.now.Load()
	if !j.begun || a.at > a.now {
		j.begun, a.now = true, a.at
		j.now.Store(a.at)
	}
	from := len(p.questions)
	err := p.gather(routes, a.status)
	a.questions = len(p.questions)
	switch asked := p.questions[from:]; {
	case err != nil:
	case len(asked) > 0:
		a.admitted, err = j.decideOrBan(asked, a.n)
	case len(routes) > 0: // all are excepted
		a.admitted = a.n
	}
	if err == nil {
		return nil
	}
	if _, refused := errors.AsType[*engine.Error](err); !refused {
		return err
	}
	a.undecided = true
	if p.problem == nil {
		p.problem = err
	}
	return nil
}

// gather brings the checks of a request's keys together, for an answer with a status.
func (p *part) gather(routes []*route, status uint64) (err error) {
	from := len(p.questions)
	for _, to := range routes {
		if to.err != nil {
			err = to.err
		}
		for i := range to.checks {
			p.ask(&to.checks[i], from, status)
		}
	}
	return err
}

// ask adds a question, or asks one that is there since from once more.
func (p *part) ask(c *check, from int, status uint64) {
	for i := range p.questions[from:] {
		if q := &p.questions[from+i]; q.rule == c.rule && q.key == c.key {
			q.times++
			return
		}
	}
	free := c.rule.account.policy.CountIf != nil && status != 0 && !c.rule.account.policy.CountIf.Holds(status)
	p.questions = append(p.questions, question{check: c, times: 1, free: free})
}

// decideOrBan is decide with bans (deny_for): nothing is taken while a key is banned because it was over its limit.
func (j *judge) decideOrBan(asked []question, n uint64) (admitted uint64, err error) {
	banned := false
	for i := range asked {
		q := &asked[i]
		if !q.rule.account.bans() {
			continue
		}
		if j.engine.Limits().Banned(q.rule.account.policy.Name, q.key) > 0 {
			banned, q.denied = true, n
		}
	}
	if banned {
		return 0, nil
	}
	if admitted, err = j.decide(asked, n); err != nil {
		return admitted, err
	}
	for i := range asked {
		q := &asked[i]
		if q.denied == 0 || !q.rule.account.bans() {
			continue
		}
		p := &q.rule.account.policy
		if err := j.engine.Limits().Ban(p.Name, q.key, p.DenyFor); err != nil {
			return admitted, err
		}
	}
	return admitted, nil
}

// bans reports whether keys that were over are banned.
func (a *account) bans() bool { return a.policy.DenyFor > 0 && !a.shadow }

// decide asks the engine, and returns how many of n requests are let through.
func (j *judge) decide(asked []question, n uint64) (admitted uint64, err error) {
	free := slices.ContainsFunc(asked, func(q question) bool { return q.free })
	if q := &asked[0]; n == 1 && q.times == 1 && len(asked) == 1 && !q.rule.account.shadow && !free {
		// As TakeAll of it alone, at a fraction of its cost.
		if q.rule.keyed.Allow(q.key) {
			return 1, nil
		}
		v, err := q.rule.keyed.Take(q.key, 1)
		if err != nil {
			return 0, err
		}
		if v.Allowed {
			return 1, nil
		}
		q.denied = 1
		return 0, nil
	}
	if n > 1 || free {
		return j.decideMany(asked, n)
	}
	j.prepare(asked, func(q *question) uint64 { return q.times })
	allowed, err := j.engine.Limits().TakeAll(j.checks, j.verdicts)
	if err != nil {
		return 0, err
	}
	for i, v := range j.verdicts {
		if !v.Allowed {
			asked[i].denied = 1
		}
	}
	if allowed {
		return 1, nil
	}
	return 0, nil
}

// decideMany decides n requests at one time as if they came one after the other. Each limit lets through as many as it has left, and
// the least of these pass. A limit in shadow mode goes on with what it has. One for which they are free has it all again after each.
func (j *judge) decideMany(asked []question, n uint64) (admitted uint64, err error) {
	j.prepare(asked, func(*question) uint64 { return 0 })
	if _, err := j.engine.Limits().PeekAll(j.checks, j.verdicts); err != nil {
		return 0, err
	}
	left := func(i int) uint64 {
		passes := j.verdicts[i].Remaining / asked[i].times
		if asked[i].free && passes > 0 {
			return n
		}
		return passes
	}
	admitted = n
	for i := range asked {
		if !j.checks[i].Shadow {
			admitted = min(admitted, left(i))
		}
	}
	for i := range asked {
		q, left := &asked[i], left(i)
		if left <= admitted && left < n {
			q.denied = n - left
		}
		if j.checks[i].N = min(admitted, left) * q.times; q.free {
			j.checks[i].N = 0
		}
	}
	_, err = j.engine.Limits().TakeAll(j.checks, j.verdicts)
	return admitted, err
}

// prepare fills checks.
func (j *judge) prepare(asked []question, need func(*question) uint64) {
	j.checks, j.verdicts = j.checks[:0], j.verdicts[:0]
	for i := range asked {
		q := &asked[i]
		j.checks = append(j.checks, engine.Check{Limit: q.rule.keyed, Key: q.key, N: need(q), Shadow: q.rule.account.shadow})
		j.verdicts = append(j.verdicts, engine.Verdict{})
	}
}

// routesMost is how many keys a router knows at once: some 10 MiB of them.
const routesMost = 1 << 16

// router finds the limits of the keys of lines.
type router struct {
	accounts map[string]*account
	live     *admit.Live
	decision admit.Decision
	routes   map[string]*route
	part     *part
}

// route is the limits of a key. Routers make it; the clerk alone fills the records in.
type route struct {
	checks []check
	err    error    // of a key that the policies refuse
	first  [1]check // where checks begins: most keys have one limit
	near   string   // without checks: the keys that it would fit, but for a : or /
	except bool     // a policy is for it but for its Except
}

// check is a limit and the key that it counts.
type check struct {
	rule   *rule
	key    string
	record *record // the clerk's; nil before the first request
}

// part is the requests of a part of the log. It goes from router to judge, clerk, and back to a router.
type part struct {
	asked     []asked
	routes    []*route   // the routes of all requests, in order
	questions []question // of all requests that have a limit, as the judge brought them together

	unmatched uint64 // requests without a key that a policy is for
	stranger  string // a key of such a one
	problem   error  // why the first undecided request is undecided
	missed    missed
}

// missed are keys that no policy is for, though one was meant to be.
type missed struct {
	times uint64
	key   string // one of them
	keys  string // of the policy
}

func (m *missed) add(more missed) {
	if m.times += more.times; m.key == "" {
		m.key, m.keys = more.key, more.keys
	}
}

// asked is one line: n requests. Its routes and questions end where the next line's begin.
type asked struct {
	at        int64 // Unix s
	n         uint64
	status    uint64 // of the answer; 0: not known
	routes    int
	questions int

	// What the judge decided.
	now       int64 // Unix s: when
	admitted  uint64
	undecided bool
}

// question is what a line asks of one limit and key, once for each of its keys that the limit counts there.
type question struct {
	*check
	times  uint64
	denied uint64 // requests of the line
	free   bool   // its answer does not count (policy.Policy.CountIf)
}

func newRouter(j *judge) *router {
	return &router{accounts: j.byName, live: j.live, routes: map[string]*route{}, part: parts.Get().(*part)}
}

// Line implements replay.LineWorker.
func (r *router) Line(at int64, n, status uint64, keys [][]byte) error {
	p := r.part
	before := len(p.routes)
	for _, key := range keys {
		to, ok := r.routes[string(key)]
		if !ok {
			to = r.find(string(key))
		}
		if len(to.checks) > 0 || to.err != nil || to.except {
			p.routes = append(p.routes, to)
			continue
		}
		if p.stranger == "" {
			p.stranger = string(key)
		}
		if to.near != "" {
			p.missed.add(missed{n, string(key), to.near})
		}
	}
	if len(p.routes) == before {
		p.unmatched += n
	}
	p.asked = append(p.asked, asked{at: at, n: n, status: status, routes: len(p.routes)})
	return nil
}

// Part implements replay.LineWorker.
func (r *router) Part() any {
	done := r.part
	r.part = parts.Get().(*part)
	return done
}

// find asks the policies which limits a key has.
func (r *router) find(key string) *route {
	if len(r.routes) >= routesMost {
		clear(r.routes)
	}
	to := &route{}
	to.checks = to.first[:0]
	r.routes[key] = to
	if to.err = r.live.Peek([]admit.Request{{Key: key}}, &r.decision); to.err != nil {
		return to
	}
	to.except = len(r.decision.Excepted) > 0
	if r.decision.Unmatched {
		near, _ := r.live.Set().Near(key)
		to.near = near.Keys
	}
	for _, result := range r.decision.Results {
		a := r.accounts[result.Name]
		to.checks = append(to.checks, check{rule: a.rules[result.Limit], key: result.Key})
	}
	return to
}

// minute finds the 60 seconds with the most denials: (at-60, at]. Denials are added in the order of time.
type minute struct {
	ring    [60]uint64 // by second
	newest  int64      // Unix s
	sum     uint64     // of the ring
	worst   uint64
	worstAt int64 // Unix s; the first of those with as many
}

func (m *minute) add(at int64, n uint64) {
	if gap := at - m.newest; gap >= 60 {
		m.ring, m.sum = [60]uint64{}, 0
	} else {
		for s := m.newest + 1; s <= at; s++ {
			m.sum -= m.ring[s%60]
			m.ring[s%60] = 0
		}
	}
	m.newest = at
	m.ring[at%60] += n
	m.sum += n
	if m.sum > m.worst {
		m.worst, m.worstAt = m.sum, at
	}
}

// clfKeys are the templates that make the usual keys of an access log.
var clfKeys = []struct{ prefix, template string }{
	{"ip:", "ip:{host}"},
	{"address:", "address:{host}"}, // as package middleware has them
	{"host:", "host:{host}"},
	{"url:", "url:{path}"},
	{"path:", "path:{path}"},
}

// DefaultKeys returns the templates for a log of a format. For an access log these are the ones of ip:{host}, address:{host},
// host:{host}, url:{path} and path:{path} whose beginning the keys of a policy have, or else ip:{host}. Other formats have a key of
// their own: there are none.
func DefaultKeys(format replay.Format, set *policy.Set) (templates []string) {
	if format == replay.JSON || format == replay.TSV {
		return nil
	}
	policies := set.Policies()
	for _, k := range clfKeys {
		if slices.ContainsFunc(policies, func(p policy.Policy) bool { return strings.HasPrefix(p.Keys, k.prefix) }) {
			templates = append(templates, k.template)
		}
	}
	if templates == nil {
		templates = []string{clfKeys[0].template}
	}
	return templates
}
