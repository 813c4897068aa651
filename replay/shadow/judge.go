package shadow

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/replay"
)

// judge decides the requests in the order of the log. It belongs to one goroutine, but for
// now, which the engine reads.
type judge struct {
	engine   *weir.Engine
	live     *policy.Live // tells routers the limits of a key, on an engine of its own where nothing is taken
	resolver *weir.Engine // that engine
	now      atomic.Int64 // the time of the engine's limits, Unix s
	accounts []*account   // in order of application
	byName   map[string]*account
	ledger   ledger
	writer   *deniedWriter // nil: none

	asked    []question
	checks   []weir.Check
	verdicts []weir.Verdict

	begun                      bool
	first, last                int64 // requests, Unix s
	requests, unmatched        uint64
	allowed, denied, undecided uint64
	late                       uint64 // lines
	latest                     int64  // s that a line was late at most
	stranger                   string // a key that no policy is for
	problem                    error  // why the first undecided request is so
}

// question is what a request asks of one limit and key: once for each of its keys that
// the limit counts there.
type question struct {
	*check
	times  uint64
	denied uint64 // requests
	retry  time.Duration
}

func newJudge(o *Options) (j *judge, err error) {
	j = &judge{byName: map[string]*account{}, ledger: ledger{budget: o.Memory}}
	if o.Denied != nil {
		j.writer = newDeniedWriter(o.Denied)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	if j.resolver, err = weir.New(weir.Config{Partitions: 1, Memory: resolverMemory, LimitMemory: resolverMemory}); err != nil {
		return j, err
	}
	if j.live, err = policy.NewLive(j.resolver, o.Policies); err != nil {
		return j, err
	}
	j.engine, err = weir.New(weir.Config{
		LimitMemory: o.LimitMemory,
		Now:         func() time.Time { return time.Unix(j.now.Load(), 0) },
	})
	if err != nil {
		return j, err
	}
	for _, p := range o.Policies.Policies() {
		a, err := newAccount(j.engine, p, o.AsWritten)
		if err != nil {
			return j, err
		}
		j.accounts = append(j.accounts, a)
		j.byName[p.Name] = a
	}
	return j, nil
}

// resolverMemory is enough for an engine that keeps nothing.
const resolverMemory = 64 << 10

func (j *judge) close() (err error) {
	for _, e := range []*weir.Engine{j.engine, j.resolver} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// NewWorker is of replay.Lines.
func (j *judge) NewWorker() replay.LineWorker { return newRouter(j) }

// Take is of replay.Lines.
func (j *judge) Take(made any) error {
	p := made.(*part)
	j.unmatched += p.unmatched
	if j.stranger == "" {
		j.stranger = p.stranger
	}
	from := 0
	for _, a := range p.asked {
		if err := j.line(a.at, a.n, p.routes[from:a.until]); err != nil {
			return err
		}
		from = a.until
	}
	return nil
}

// line decides n requests at one time.
func (j *judge) line(at int64, n uint64, routes []*route) error {
	now := j.clock(at)
	j.requests += n
	if len(routes) == 0 {
		return nil
	}
	err := j.gather(routes)
	admitted := uint64(0)
	if err == nil {
		admitted, err = j.decide(n)
	}
	if err != nil {
		return j.undecide(n, err)
	}
	j.allowed += admitted
	j.denied += n - admitted
	for i := range j.asked {
		if err := j.settle(&j.asked[i], at, now, n, admitted); err != nil {
			return err
		}
	}
	j.ledger.keep(j.accounts, now)
	return nil
}

// clock moves the time on, and returns the time of the line's decision.
func (j *judge) clock(at int64) (now int64) {
	switch now = j.now.Load(); {
	case !j.begun:
		j.begun, j.first = true, at
		for _, a := range j.accounts {
			a.timeline = newTimeline(at)
		}
		j.now.Store(at)
		now = at
	case at > now:
		j.now.Store(at)
		now = at
	case at < now:
		j.late++
		j.latest = max(j.latest, now-at)
	}
	j.first = min(j.first, at)
	j.last = now
	return now
}

// gather brings the checks of a request's keys together.
func (j *judge) gather(routes []*route) (err error) {
	j.asked = j.asked[:0]
	for _, to := range routes {
		if to.err != nil {
			err = to.err
		}
		for i := range to.checks {
			c := &to.checks[i]
			j.ledger.find(c)
			j.ask(c)
		}
	}
	return err
}

func (j *judge) ask(c *check) {
	for i := range j.asked {
		if j.asked[i].record == c.record {
			j.asked[i].times++
			return
		}
	}
	j.asked = append(j.asked, question{check: c, times: 1})
}

// decide asks the engine, and tells how many of n requests are let through.
func (j *judge) decide(n uint64) (admitted uint64, err error) {
	if q := &j.asked[0]; n == 1 && q.times == 1 && len(j.asked) == 1 && !q.rule.account.shadow {
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
		q.denied, q.retry = 1, v.RetryAfter
		return 0, nil
	}
	if n > 1 {
		return j.decideMany(n)
	}
	j.prepare(func(q *question) uint64 { return q.times })
	allowed, err := j.engine.TakeAll(j.checks, j.verdicts)
	if err != nil {
		return 0, err
	}
	for i, v := range j.verdicts {
		if !v.Allowed {
			j.asked[i].denied, j.asked[i].retry = 1, v.RetryAfter
		}
	}
	if allowed {
		return 1, nil
	}
	return 0, nil
}

// decideMany decides n requests at one time as if they came one after the other: each limit
// lets through as many as it has left, and the smallest of these are let through. A limit
// in shadow mode goes on with what it has.
func (j *judge) decideMany(n uint64) (admitted uint64, err error) {
	j.prepare(func(*question) uint64 { return 0 })
	if _, err := j.engine.PeekAll(j.checks, j.verdicts); err != nil {
		return 0, err
	}
	admitted = n
	for i, v := range j.verdicts {
		if !j.checks[i].Shadow {
			admitted = min(admitted, v.Remaining/j.asked[i].times)
		}
	}
	for i, v := range j.verdicts {
		q := &j.asked[i]
		left := v.Remaining / q.times
		if left <= admitted && left < n {
			q.denied = n - left
		}
		j.checks[i].N = min(admitted, left) * q.times
	}
	if _, err := j.engine.TakeAll(j.checks, j.verdicts); err != nil || j.writer == nil {
		return admitted, err
	}
	j.prepare(func(q *question) uint64 { return q.times })
	if _, err := j.engine.PeekAll(j.checks, j.verdicts); err != nil {
		return 0, err
	}
	for i, v := range j.verdicts {
		j.asked[i].retry = v.RetryAfter
	}
	return admitted, nil
}

// prepare fills checks.
func (j *judge) prepare(need func(*question) uint64) {
	j.checks, j.verdicts = j.checks[:0], j.verdicts[:0]
	for i := range j.asked {
		q := &j.asked[i]
		j.checks = append(j.checks, weir.Check{Limit: q.rule.keyed, Key: q.key, N: need(q), Shadow: q.rule.account.shadow})
		j.verdicts = append(j.verdicts, weir.Verdict{})
	}
}

// settle notes what was decided of one limit.
func (j *judge) settle(q *question, at, now int64, n, admitted uint64) error {
	a, r := q.rule.account, q.record
	before := cap(r.series)
	a.ask(r, now, n*q.times)
	j.ledger.bytes += int64(cap(r.series) - before)
	elsewhere := uint64(0)
	if q.denied < n-admitted {
		elsewhere = n - admitted - q.denied
	}
	a.elsewhere += elsewhere * q.times
	a.allowed += (n - q.denied - elsewhere) * q.times
	if q.denied == 0 {
		return nil
	}
	a.deny(r, now, q.denied*q.times)
	if j.writer == nil {
		return nil
	}
	return j.writer.write(at, q)
}

// undecide notes requests that could not be decided: a server would have answered them
// with an error.
func (j *judge) undecide(n uint64, err error) error {
	var refused *weir.Error
	if !errors.As(err, &refused) {
		return err
	}
	if j.problem == nil {
		j.problem = err
	}
	j.undecided += n
	for _, q := range j.asked {
		q.rule.account.requests += n
		q.rule.account.undecided += n
	}
	return nil
}
