package admit

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/policy"
)

// maxWaiting is how many requests wait in a Live.
const maxWaiting = 10_000

// lines are the requests that wait for their turn: each for the key of one policy, in the order in which they came.
// A request that comes while others wait for its key does not pass before them. Each admission is taken when its turn
// has come, so that a limit knows nothing of waiting requests.
type lines struct {
	waiting atomic.Int64 // requests

	mu    sync.Mutex // guards byKey
	byKey map[lineID]*line
}

// lineID is a policy's name and a key that is counted.
type lineID struct{ name, key string }

type line struct {
	length int
	n      uint64        // that they wait for
	last   chan struct{} // closed once the last of them has left
}

// TakeOrWait is Take, except for requests that may pass within the Wait of the policies that deny them, or that have
// others waiting before them. For these wait is true, nothing is taken or counted, and Wait must follow.
func (l *Live) TakeOrWait(reqs []Request, d *Decision) (wait bool, err error) {
	if err := l.decide(reqs, d, takes); err != nil {
		return false, err
	}
	if d.behind >= 0 || d.mayWait() {
		return true, nil
	}
	l.finish(d)
	return false, nil
}

// Wait continues after TakeOrWait returned wait. It returns once it is the requests' turn and they may pass. It denies
// them as soon as this is known not to happen within the Wait, or by d.Until. d.Waited is how long it took. The error
// is context.Canceled once d.Context is done: nothing was taken.
func (l *Live) Wait(reqs []Request, d *Decision) error {
	began := time.Now()
	until := began.Add(d.wait)
	if !d.Until.IsZero() && d.Until.Before(until) {
		until = d.Until
	}
	behind := d.behind >= 0
	turn, leave, ok := l.join(d, time.Until(until))
	if !ok {
		return l.Refuse(reqs, d)
	}
	defer leave()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	var gone <-chan struct{}
	if d.Context != nil {
		gone = d.Context.Done()
	}
	select {
	case <-turn:
	case <-timer.C:
		behind = true // it is not known what the limit says now
	case <-gone:
		return context.Canceled
	}
	for asked := !behind; ; asked = false {
		if !asked {
			if err := l.decide(reqs, d, takesInTurn); err != nil {
				return err
			}
		}
		pause := max(d.RetryAfter, time.Millisecond)
		if !d.mayWait() || pause > time.Until(until) {
			d.Waited = time.Since(began)
			l.finish(d)
			return nil
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-gone:
			return context.Canceled
		}
	}
}

// mayWait reports whether the requests, which are denied, may pass in time.
func (d *Decision) mayWait() bool {
	return !d.Allowed && !d.Never && d.wait > 0 && d.RetryAfter <= d.wait
}

// join puts the requests at the end of a queue. It is the queue that they stand behind, or the queue of the limit for
// which they wait longest. It closes turn when all requests before have left. ok is false if the queue is full, or if
// the requests before need more than passes within the rest of the time.
func (l *Live) join(d *Decision, rest time.Duration) (turn <-chan struct{}, leave func(), ok bool) {
	place := max(d.behind, 0)
	for i := range d.Results {
		if d.behind < 0 && d.denies(i) && (!d.denies(place) || d.Results[i].RetryAfter > d.Results[place].RetryAfter) {
			place = i
		}
	}
	c := d.checks[place]
	if l.lines.waiting.Add(1) > maxWaiting {
		l.lines.waiting.Add(-1)
		return nil, nil, false
	}
	id := lineID{c.Limit.Name(), strings.Clone(c.Key)}
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	in := l.lines.byKey[id]
	if in == nil {
		first := make(chan struct{})
		close(first)
		in = &line{last: first}
	}
	if n := in.n + c.N; in.length > 0 && d.elsewhere[place] == nil {
		v, err := c.Limit.Peek(c.Key, n)
		if err != nil || v.Never || v.RetryAfter > rest {
			l.lines.waiting.Add(-1)
			return nil, nil, false
		}
	}
	if l.lines.byKey == nil {
		l.lines.byKey = map[lineID]*line{}
	}
	l.lines.byKey[id] = in
	turn, left := in.last, make(chan struct{})
	in.length, in.n, in.last = in.length+1, in.n+c.N, left
	quit := func() { // once all before have left, so that nobody behind passes before them
		<-turn
		l.lines.mu.Lock()
		defer l.lines.mu.Unlock()
		l.lines.waiting.Add(-1)
		if in.length--; in.length == 0 {
			delete(l.lines.byKey, id)
		}
		close(left)
	}
	return turn, func() {
		l.lines.mu.Lock()
		in.n -= c.N
		l.lines.mu.Unlock()
		select {
		case <-turn:
			quit()
		default:
			go quit()
		}
	}, true
}

// denies reports whether the result at a place denies the requests.
func (d *Decision) denies(place int) bool {
	r := &d.Results[place]
	return !r.Allowed && r.Mode != policy.Shadow
}

// Refuse denies the requests that TakeOrWait wants to wait, if they can't be queued.
func (l *Live) Refuse(reqs []Request, d *Decision) error {
	if err := l.denyBehind(reqs, d); err != nil {
		return err
	}
	l.finish(d)
	return nil
}

// denyBehind has d deny requests that stood behind others, and so were not decided yet, for as long as all before them need.
func (l *Live) denyBehind(reqs []Request, d *Decision) error {
	place := d.behind
	if place < 0 {
		return nil
	}
	if err := l.decide(reqs, d, peeks); err != nil || d.Never {
		return err
	}
	c := d.checks[place]
	l.lines.mu.Lock()
	n := c.N
	if in := l.lines.byKey[lineID{c.Limit.Name(), c.Key}]; in != nil {
		n += in.n
	}
	l.lines.mu.Unlock()
	burst := c.Limit.Limit().Burst
	v, err := c.Limit.Peek(c.Key, min(n, burst))
	if err != nil {
		return err
	}
	if v.Allowed, v.RetryAfter = false, max(v.RetryAfter, time.Millisecond); n > burst {
		v.RetryAfter = max(v.RetryAfter, d.Results[place].wait+time.Millisecond)
	}
	d.verdicts[place], d.at = v, 0 // it is not of the same moment
	d.applyVerdicts(false)
	return nil
}

// standsBehind is the place of the first limit for whose key others wait, or -1.
func (l *Live) standsBehind(d *Decision) int {
	if l.lines.waiting.Load() == 0 {
		return -1
	}
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	for i := range d.Results {
		r := &d.Results[i]
		if r.wait > 0 && r.N > 0 && r.Mode != policy.Shadow && l.lines.byKey[lineID{r.Name, r.Key}] != nil {
			d.wait = r.wait
			return i
		}
	}
	return -1
}

// waitOf is how long the limits that deny let requests wait: the shortest of them, 0 if one does not.
func (d *Decision) waitOf() time.Duration {
	wait := time.Duration(math.MaxInt64)
	for i := range d.Results {
		switch {
		case !d.denies(i):
		case d.Results[i].NoPart:
			return 0
		default:
			wait = min(wait, d.Results[i].wait)
		}
	}
	if wait == math.MaxInt64 {
		return 0
	}
	return wait
}
