package limits

import (
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/limit"
)

// request is one that this node can't decide within its grants. Only one request asks the owner
// for a key at a time. Others wait for its answer, which may be enough for them too.
type request struct {
	*Limits
	asked    []engine.Check
	verdicts []engine.Verdict
	here     []bool    // by check: taken at this node
	mine     []pending // the checks that this request asks the holder for
	span     *tracing.Span
}

// pending is a check that the owner is asked for.
type pending struct {
	check *engine.Check // nil: the entry is reported, and no request waits
	entry *entry        // nil: the node keeps too many, nothing is taken, or nothing is granted of the limit
	place int           // of the check in its request
}

// patience is for how long a request waits for others that ask.
const patience = ownerTime + DefaultDeadline

func (q *request) decide() (allowed, answered bool, err error) {
	until := time.Now().Add(patience)
	q.here = make([]bool, len(q.asked))
	for first := true; ; first = false {
		now := q.cfg.Engine.Limits().Clock.Now()
		stop, at := q.gather(first, now)
		switch {
		case stop == denies:
			q.back()
			q.see(q.asked, q.verdicts, at, now)
			q.stats.local.Add(1)
			return false, true, nil
		case stop == waits:
			q.back()
			if !q.wait(&q.asked[at], until) {
				return false, false, nil
			}
		case len(q.mine) == 0:
			q.stats.local.Add(1)
			return true, true, nil
		default:
			return q.ask(true)
		}
	}
}

// stop is why gather went no further.
type stop uint8

const (
	goesOn stop = iota
	denies      // a limit that is known to deny
	waits       // another request asks for the key
)

// gather takes at this node what it can; of the rest it has this request ask.
func (q *request) gather(first bool, now int64) (why stop, at int) {
	for i := range q.asked {
		if why := q.gatherOne(i, first, now); why != goesOn {
			return why, i
		}
	}
	return goesOn, 0
}

func (q *request) gatherOne(i int, first bool, now int64) stop {
	c := &q.asked[i]
	if c.N == 0 || c.Limit.Where() == limit.WhereStrict {
		q.mine = append(q.mine, pending{check: c, place: i})
		return goesOn
	}
	sh := q.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := q.entry(sh, c, now)
	if e == nil {
		q.mine = append(q.mine, pending{check: c, place: i})
		return goesOn
	}
	if first {
		e.Note(now, e.terms, c.N)
	}
	e.check(now)
	switch e.Take(now, e.terms, c.N) {
	case grant.Admitted:
		q.here[i] = true
		e.verdict(&q.verdicts[i], now, c.N, true)
	case grant.Denied:
		e.verdict(&q.verdicts[i], now, c.N, false)
		if !c.Shadow {
			return denies
		}
	case grant.Unknown:
		switch {
		case q.asks(e): // a request may have a key twice: the holder decides both together
			q.mine = append(q.mine, pending{check: c, place: i})
			return goesOn
		case e.busy != nil:
			return waits
		}
		e.busy = make(chan struct{})
		q.mine = append(q.mine, pending{c, e, i})
	}
	return goesOn
}

// asks reports whether this request is the one that asks for an entry.
func (q *request) asks(e *entry) bool {
	return slices.ContainsFunc(q.mine, func(p pending) bool { return p.entry == e })
}

// back gives back what this request took here, and lets other requests ask for it.
func (q *request) back() {
	for i, here := range q.here {
		if here {
			q.undoOne(&q.asked[i])
			q.here[i] = false
		}
	}
	for _, p := range q.mine {
		q.release(p.entry)
	}
	q.mine = q.mine[:0]
}

// release lets others ask for a key.
func (l *Limits) release(e *entry) {
	if e == nil {
		return
	}
	sh := l.shard(e.key.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(e.busy)
	e.busy = nil
}

// wait waits until nobody asks for a check's key, but not for long.
func (q *request) wait(c *engine.Check, until time.Time) bool {
	sh := q.shard(c.Key)
	sh.mu.Lock()
	e := q.entry(sh, c, q.cfg.Engine.Limits().Clock.Now())
	if e == nil || e.busy == nil {
		sh.mu.Unlock()
		return time.Now().Before(until)
	}
	e.waiting += c.N
	busy := e.busy
	sh.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	over := false
	select {
	case <-busy:
	case <-timer.C:
		over = true
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e.waiting -= c.N
	return !over
}

// ask asks the owner for the checks of mine, and decides by its answer.
func (q *request) ask(take bool) (allowed, answered bool, err error) {
	a, err := q.message(q.Group(q.mine[0].check.Key), q.mine, take, q.span)
	mine := slices.Clone(q.mine)
	if err != nil || a.err != nil || !a.Allowed {
		q.back()
	} else {
		for _, p := range q.mine {
			q.release(p.entry)
		}
	}
	switch {
	case err != nil:
		return false, false, nil
	case a.err != nil:
		return false, true, a.err
	}
	for k, p := range mine {
		v := &q.verdicts[p.place]
		*v = a.Verdicts[k]
		switch {
		case v.Allowed && p.entry != nil && a.grants[k].ID.Number != 0:
			g := &a.grants[k]
			v.Remaining = min(v.Remaining, g.Free+g.Granted-min(g.Granted, g.Used))
		case v.Allowed || v.Never:
		default:
			v.RetryAfter = max(v.RetryAfter, time.Millisecond)
		}
	}
	return a.Allowed, true, nil
}
