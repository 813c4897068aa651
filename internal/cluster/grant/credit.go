package grant

import "time"

// Credit is what a node has of one key of a limit. Times are by the node's monotonic clock, in ns.
type Credit struct {
	id        ID
	granted   uint64
	used      uint64
	returned  uint64
	asked     uint64 // used, as the last Ask reported it
	confirmed uint64 // used, as the holder has it for sure
	end       int64  // nothing is used from then on

	uses []used // not confirmed by the holder, the oldest first; at most MaxUses

	old    uint64 // of the grant before, which nobody settles
	oldEnd int64

	// Requests for from admissions or more are denied until the time pause.
	pause int64
	from  uint64

	slot    int64 // when the count began
	count   uint64
	average float64 // admissions requested per renewal interval

	Said  Answer // the last
	Heard int64  // when; 0: never
	sent  int64  // when the last Ask was
}

// NewCredit returns a Credit that has nothing. No other Credit of the node, in any of its processes, may have the same
// number.
func NewCredit(number uint64) *Credit { return &Credit{id: ID{Number: number}} }

// used is n admissions, the first and the last at these times.
type used struct {
	from, at int64
	n        uint64
}

const (
	MaxUses     = 16 // of one Ask
	usesPerPace = 8
)

// Outcome is what a Credit says of a request.
type Outcome uint8

const (
	Admitted Outcome = iota
	Denied           // by what the holder said a moment ago
	Unknown          // the holder is to be asked
)

// Note counts a request for n admissions, before it is decided: by that the node knows how much
// it could use.
func (c *Credit) Note(now int64, t Terms, n uint64) {
	if now-c.slot >= int64(t.Pace) {
		c.roll(now, t)
	}
	c.count += n
}

func (c *Credit) roll(now int64, t Terms) {
	passed := (now - c.slot) / int64(t.Pace)
	c.average = (c.average + float64(c.count)) / 2
	for ; passed > 1 && c.average > 0; passed-- {
		if c.average /= 2; c.average < 0.01 {
			c.average = 0
		}
	}
	c.slot, c.count = now, 0
}

// demand returns how many admissions are requested per renewal interval, 0 for a key that is seldom requested.
func (c *Credit) demand() uint64 {
	lately := c.average
	if c.count > 1 {
		lately = max(lately, float64(c.count-1)) // the first of a cold key is no demand
	}
	return uint64(lately)
}

// Take decides a request for n > 0 admissions.
func (c *Credit) Take(now int64, t Terms, n uint64) Outcome {
	switch {
	case c.granted-c.used-c.returned >= n && now < c.end:
		c.used += n
		c.use(now, t, n)
		return Admitted
	case c.old >= n && now < c.oldEnd:
		c.old -= n
		return Admitted
	case n >= c.from && now < c.pause:
		return Denied
	}
	return Unknown
}

// use notes when n were used. Times that are near count as the later one.
func (c *Credit) use(now int64, t Terms, n uint64) {
	if last := len(c.uses) - 1; last >= 0 {
		if u := &c.uses[last]; now-u.from < int64(t.Pace)/usesPerPace {
			u.at, u.n = max(now, u.at), u.n+n
			return
		}
	}
	if len(c.uses) == MaxUses {
		c.uses[1].from, c.uses[1].n = c.uses[0].from, c.uses[1].n+c.uses[0].n
		c.uses = append(c.uses[:0], c.uses[1:]...)
	}
	c.uses = append(c.uses, used{now, now, n})
}

// Undo takes back a Take that admitted n just now, because another limit denied the request. What the holder may
// already know stays used.
func (c *Credit) Undo(n uint64) {
	last := len(c.uses) - 1
	if last < 0 || c.uses[last].n < n || c.used < c.asked+n {
		return
	}
	c.used -= n
	if c.uses[last].n -= n; c.uses[last].n == 0 {
		c.uses = c.uses[:last]
	}
}

// Left is how much can be used now.
func (c *Credit) Left(now int64) (n uint64) {
	if now < c.end {
		n = c.granted - c.used - c.returned
	}
	if now < c.oldEnd {
		n += c.old
	}
	return n
}

// Paused is for how long requests for n are denied still, by what the holder said.
func (c *Credit) Paused(now int64, n uint64) time.Duration {
	if n < c.from || now >= c.pause {
		return 0
	}
	return time.Duration(c.pause - now)
}

// Resume ends a pause: the limit may have more than the owner said.
func (c *Credit) Resume() { c.pause = 0 }

// Unconfirmed reports whether the owner may not know yet of something that was used.
func (c *Credit) Unconfirmed() bool { return c.used > c.confirmed }

// Stop has the node use no more of its grant, because its clock stood still.
func (c *Credit) Stop(now int64) { c.end, c.oldEnd = min(c.end, now), min(c.oldEnd, now) }

// Active reports whether the node has anything of the key to use or to report.
func (c *Credit) Active() bool { return c.granted > c.returned+c.confirmed }

// reportPaces is after how many renewal intervals a node reports what it used, and returns what is left.
const reportPaces = 4

// Due reports whether the node should send the holder an Ask although no request waits.
func (c *Credit) Due(now int64, t Terms) bool {
	if now-c.slot >= int64(t.Pace) {
		c.roll(now, t)
	}
	demand, left := c.demand(), c.granted-c.used-c.returned
	switch {
	case now-c.sent < int64(t.Pace)/4:
		return false
	case now >= c.end:
		return left > 0 || c.used > c.confirmed
	case demand >= hot && now >= c.pause && (left < demand/4+1 || c.end-now < int64(t.Life)/4):
		return true
	case now-c.sent < reportPaces*int64(t.Pace):
		return false
	}
	return c.used > c.confirmed || left > 3*demand
}

// Idle reports whether nothing that c knows matters.
func (c *Credit) Idle(now int64, t Terms) bool {
	if c.end > 0 && now >= c.end+int64(t.Held()) {
		return true // the holder has given up too
	}
	return c.granted == c.used+c.returned && c.used == c.confirmed && now >= c.pause && (c.old == 0 || now >= c.oldEnd) &&
		now-c.slot >= 8*int64(t.Pace)
}

// Ask makes the question for a request that needs so many, or 0. waiting is how many admissions
// others wait for.
func (c *Credit) Ask(now int64, t Terms, need, waiting uint64) Ask {
	demand, want := c.demand(), uint64(0)
	if demand >= hot {
		want = min(t.Most, demand+(demand+3)/4+waiting)
	}
	left := c.granted - c.used - c.returned
	if now >= c.end {
		c.returned += left
	} else if left > 2*want {
		c.returned += left - want
	}
	c.asked, c.sent = c.used, now
	a := Ask{ID: c.id, Used: c.used, Returned: c.returned, Need: need, Want: want, Demand: max(demand, need)}
	for _, u := range c.uses {
		a.Uses = append(a.Uses, Use{u.n, time.Duration(now - u.at)})
	}
	return a
}

// Answered takes in the answer to an Ask that was made at the time sent, before anything of it left.
func (c *Credit) Answered(now, sent int64, t Terms, a *Ask, said *Answer) {
	switch {
	case said.ID == c.id:
		c.granted = max(c.granted, said.Granted)
		c.forget(said.Used)
	case said.ID.Number == c.id.Number && said.ID.Token > c.id.Token:
		if left := c.granted - c.used - c.returned; now < c.end && left > 0 {
			c.old, c.oldEnd = left, c.end
		}
		c.id, c.granted = said.ID, said.Granted
		c.used, c.returned, c.asked, c.confirmed, c.uses, c.end = 0, 0, 0, 0, c.uses[:0], 0
	default:
		return // of a holder that another has followed
	}
	c.end = max(c.end, sent+int64(t.Life))
	c.Said, c.Heard = *said, now
	c.pause = 0
	switch {
	case said.Short:
		c.pause, c.from = now+int64(said.Pause), 1
	case !said.Allowed:
		c.pause, c.from = now+int64(said.Pause), a.Need
	}
}

// forget drops what the holder knows of the uses.
func (c *Credit) forget(confirmed uint64) {
	if confirmed <= c.confirmed {
		return
	}
	fresh := confirmed - c.confirmed
	c.confirmed = confirmed
	for len(c.uses) > 0 && fresh > 0 {
		n := min(c.uses[0].n, fresh)
		fresh -= n
		if c.uses[0].n -= n; c.uses[0].n == 0 {
			c.uses = append(c.uses[:0], c.uses[1:]...)
		}
	}
}
