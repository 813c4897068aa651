package journal

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of what a follower asks for before it needs it. A round trip then costs a wait
// of one, and not one for each message: 80 ms allow 12,000 small messages a second, or
// 100 MB.
const (
	aheadAsks     = 4       // under way
	aheadMessages = 256     // of one ask
	aheadBytes    = 2 << 20 // of one ask; the server adds the message that goes beyond
	aheadMost     = 24 << 20
)

// ahead decides what a follower asks for next, and keeps what came before its turn. It
// knows no clock and no network: Journal.runFollower drives it with real ones, the
// simulation with seeded ones.
//
// Asks are for ranges of sequences that do not overlap, and any replica may answer any
// of them: answers come in any order, cut off where a replica has no more, and with
// holes where it lost a message. What comes of an ask is in order.
type ahead struct {
	known uint64 // the newest message that somebody told of, or that a replica counted
	front uint64 // all up to here was asked for, or is in missing
	asks  []*ask // under way

	came    map[uint64][]byte // not applied yet, by sequence
	bytes   int               // of these
	missing []span            // asked for, and did not come; in order
	holes   []span            // a replica went on after them: it does not have them
	usual   int               // bytes of a message, about

	wait  time.Duration // the pause before the next ask; 0: none
	until time.Time     // of it
	hard  bool          // the pause is after an error: news does not end it
}

// span is a range of sequences, both ends included.
type span struct{ from, to uint64 }

// ask is a request for a range that is under way.
type ask struct {
	span
	last  uint64    // the newest that came of it, from-1 before the first
	heard time.Time // when it was sent, or something came of it
}

// tell says that the journal has a message. It ends a pause that waits for one.
func (a *ahead) tell(sequence uint64) {
	if sequence <= a.known {
		return
	}
	a.known = sequence
	if !a.hard { // whoever brought the news can be asked, too
		a.wait, a.until = 0, time.Time{}
	}
}

// want returns the next range to ask for, where next is the first that is not applied;
// ok is false for now. With nothing to fetch it looks for what nobody told of.
func (a *ahead) want(now time.Time, next uint64) (want span, ok bool) {
	a.forget(next)
	if now.Before(a.until) || len(a.asks) >= aheadAsks {
		return span{}, false
	}
	switch {
	case len(a.missing) > 0:
		want = a.missing[0]
	case a.front < a.known:
		want = span{a.front + 1, a.known}
	case len(a.asks) == 0 && !a.ready(next):
		want = span{next, next + aheadMessages - 1}
	default:
		return span{}, false
	}
	if want.from != next && !a.room() { // what is to be applied next, there is always room for
		return span{}, false
	}
	want.to = min(want.to, want.from+a.atOnce()-1)
	return want, true
}

// atOnce is how many messages an ask is for.
func (a *ahead) atOnce() uint64 {
	return uint64(min(max(aheadBytes/max(a.usual, 1), 1), aheadMessages))
}

// room tells whether what an ask may bring can be kept.
func (a *ahead) room() bool {
	asked := len(a.asks) + 1
	return a.bytes+asked*(aheadBytes+2*maxPartBytes) <= aheadMost && len(a.came)+asked*aheadMessages <= 2*aheadAsks*aheadMessages
}

// begin is called when a range is asked for.
func (a *ahead) begin(now time.Time, want span) *ask {
	asked := &ask{want, want.from - 1, now}
	a.asks = append(a.asks, asked)
	if len(a.missing) > 0 && a.missing[0].from == want.from {
		if a.missing[0].from = want.to + 1; a.missing[0].from > a.missing[0].to {
			a.missing = a.missing[1:]
		}
	}
	a.front = max(a.front, want.to)
	return asked
}

// take keeps a message that came of an ask, and tells whether more may come of that.
func (a *ahead) take(now time.Time, of *ask, next, sequence uint64, data []byte) {
	if sequence <= of.last {
		return
	}
	if sequence > of.last+1 {
		a.holes = append(a.holes, span{of.last + 1, sequence - 1})
		if sequence > of.to { // it went on after the whole range
			a.front = max(a.front, sequence)
			of.to = sequence
		}
	}
	of.last, of.heard = sequence, now
	a.known = max(a.known, sequence)
	a.wait, a.until, a.hard = 0, time.Time{}, false
	a.usual = cmp.Or(a.usual, len(data)) + (len(data)-cmp.Or(a.usual, len(data)))/8
	if sequence < next || a.came[sequence] != nil {
		return
	}
	a.keep(sequence, data)
}

// keep is also for a message that could not be applied, and is retried.
func (a *ahead) keep(sequence uint64, data []byte) {
	if a.came == nil {
		a.came = map[uint64][]byte{}
	}
	if data == nil { // else it is as if it had not come
		data = []byte{}
	}
	a.came[sequence] = data
	a.bytes += len(data)
}

// end says that nothing more comes of an ask. pending is how many messages the replica has
// after the last one: with none, the rest of the range is on its way to it, or was
// never written.
func (a *ahead) end(now time.Time, of *ask, pending uint64) {
	if !a.drop(of) {
		return
	}
	a.hard = false // somebody answers
	if pending > 0 && of.last >= of.from {
		a.known = max(a.known, of.last+pending)
		return
	}
	switch {
	case of.last >= of.to:
	case of.last < a.known: // told of, and not there yet: on its way to this replica, or lost
		a.pause(now, min(max(2*a.wait, followSoon), followOn), false)
	default:
		a.pause(now, followEvery, false)
	}
}

// fail ends an ask that nobody answers, or in an error, and asks less often. It tells
// whether this is the first time, which is worth a line in the log.
func (a *ahead) fail(now time.Time, of *ask) (first bool) {
	if !a.drop(of) {
		return false
	}
	return a.failed(now)
}

// failed is fail of what could not even be asked, or not be applied.
func (a *ahead) failed(now time.Time) (first bool) {
	first = !a.hard
	if !a.hard {
		a.wait = 0
	}
	if now.Before(a.until) && a.hard { // asks that failed together
		return false
	}
	a.pause(now, min(2*max(a.wait, followEvery), retryMost), true)
	return first
}

func (a *ahead) pause(now time.Time, wait time.Duration, hard bool) {
	if a.hard && !hard {
		return // something else still fails
	}
	a.wait, a.until, a.hard = wait, now.Add(wait), hard
}

// drop takes an ask off the list; the rest of its range is to be asked for again.
func (a *ahead) drop(of *ask) bool {
	at := slices.Index(a.asks, of)
	if at < 0 {
		return false
	}
	a.asks = slices.Delete(a.asks, at, at+1)
	switch {
	case of.last >= of.to:
	case of.to == a.front:
		a.front = of.last
	default:
		a.missing = append(a.missing, span{of.last + 1, of.to})
		slices.SortFunc(a.missing, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	}
	return true
}

// silent is an ask of which nothing came for a while.
func (a *ahead) silent(now time.Time) *ask {
	for _, of := range a.asks {
		if now.Sub(of.heard) >= oneAsk {
			return of
		}
	}
	return nil
}

// turn takes out the message to apply after next-1: that of next, or, where the replica
// that was asked does not have that one, the first after it.
func (a *ahead) turn(next uint64) (sequence uint64, data []byte, ok bool) {
	a.forget(next)
	sequence = a.nextOf(next)
	if data = a.came[sequence]; data == nil {
		return 0, nil, false
	}
	delete(a.came, sequence)
	a.bytes -= len(data)
	return sequence, data, true
}

func (a *ahead) ready(next uint64) bool { return a.came[a.nextOf(next)] != nil }

func (a *ahead) nextOf(next uint64) uint64 {
	if a.came[next] == nil {
		if at := slices.IndexFunc(a.holes, func(s span) bool { return s.from <= next && next <= s.to }); at >= 0 {
			return a.holes[at].to + 1
		}
	}
	return next
}

// forget drops what is before next: it was applied, perhaps in another way.
func (a *ahead) forget(next uint64) {
	before := func(s span) bool { return s.to < next }
	a.holes, a.missing = slices.DeleteFunc(a.holes, before), slices.DeleteFunc(a.missing, before)
	if len(a.missing) > 0 {
		a.missing[0].from = max(a.missing[0].from, next)
	}
	a.front, a.known = max(a.front, next-1), max(a.known, next-1)
	if len(a.came) == 0 || a.came[next] != nil {
		return
	}
	for sequence, data := range a.came {
		if sequence < next {
			delete(a.came, sequence)
			a.bytes -= len(data)
		}
	}
}

// due is when want may have another answer, or an ask is silent, though nothing comes;
// zero: never.
func (a *ahead) due(now time.Time) (due time.Time) {
	if a.until.After(now) {
		due = a.until
	}
	for _, of := range a.asks {
		if at := of.heard.Add(oneAsk); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}
