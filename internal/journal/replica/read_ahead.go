package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Bounds of what a follower asks for before it needs it. So a follower does not wait a round trip for each message.
// With a round trip of 80 ms it reads 12,000 small messages a second, or 100 MB.
const (
	AsksAtOnce    = 4       // under way
	AskMessages   = 256     // of one ask
	AskBytes      = 2 << 20 // of one ask; the server adds the message that goes beyond
	readAheadMost = 24 << 20
)

const (
	// FollowEvery is how often a follower that has all messages looks for one that was not announced.
	FollowEvery = 100 * time.Millisecond

	// A follower looks again for an announced message after followSoon, and then at growing intervals up to followOn.
	// Another replica may have the message first, or it may be lost.
	followSoon = 2 * time.Millisecond
	followOn   = 20 * time.Millisecond

	// RetryMost is the longest pause after what failed.
	RetryMost = 2 * time.Second

	// silentLeast and silentMost bound how long an ask without an answer is kept. The request may be lost, for example
	// when a server stops.
	silentLeast = 250 * time.Millisecond
	silentMost  = 3 * time.Second

	// silentTrips is how many times as long as the last answer took the next one may take.
	silentTrips = 4
)

// ReadAhead decides what a follower asks for next, and keeps what came before its turn. It
// knows no clock and no network: Journal.runFollower drives it with real ones, the
// simulation with seeded ones.
//
// Asks are for ranges of sequences that do not overlap, and any replica may answer any of them. Answers come in any
// order; the messages of one answer are in order. An answer ends early if the replica has no more, and has holes if it
// lost messages.
type ReadAhead struct {
	Known uint64 // the newest message that was announced, or that a replica counted
	Front uint64 // all up to here was asked for, or is in missing
	asks  []*Ask // under way

	came    map[uint64][]byte // not applied yet, by sequence
	bytes   int               // of these
	missing []span            // asked for, and did not come; in order
	holes   []span            // a replica went on after them: it does not have them
	usual   int               // bytes of a message, about

	patience time.Duration // how long nothing may come of an ask; 0: silentLeast
	gaveUp   time.Time     // when an ask was last given up for that

	wait  time.Duration // the pause before the next ask; 0: none
	until time.Time     // of it
	hard  bool          // the pause is after an error: news does not end it
}

// span is a range of sequences, both ends included.
type span struct{ From, To uint64 }

// Ask is a request for a range that is under way.
type Ask struct {
	span
	last  uint64    // the newest that came in answer, from-1 before the first
	heard time.Time // when it was sent, or the last answer came
}

// Hint says that the journal has a message. It ends a pause that waits for one.
func (a *ReadAhead) Hint(sequence uint64) {
	if sequence <= a.Known {
		return
	}
	a.Known = sequence
	if !a.hard { // the replica that brought the news can be asked, too
		a.wait, a.until = 0, time.Time{}
	}
}

// Want returns the next range to ask for. The first message that is not applied is next. ok is false if nothing is to
// be asked now. With nothing to fetch it looks for messages that were not announced.
func (a *ReadAhead) Want(now time.Time, next uint64) (want span, ok bool) {
	a.forget(next)
	if now.Before(a.until) || len(a.asks) >= AsksAtOnce {
		return span{}, false
	}
	switch {
	case len(a.missing) > 0:
		want = a.missing[0]
	case a.Front < a.Known:
		want = span{a.Front + 1, a.Known}
	case len(a.asks) == 0 && !a.ready(next):
		want = span{next, next + AskMessages - 1}
	default:
		return span{}, false
	}
	if want.From != next && !a.hasSpace() { // there is always space for the next message to apply
		return span{}, false
	}
	want.To = min(want.To, want.From+a.atOnce()-1)
	return want, true
}

// atOnce is how many messages an ask is for.
func (a *ReadAhead) atOnce() uint64 {
	return uint64(min(max(AskBytes/max(a.usual, 1), 1), AskMessages))
}

// hasSpace reports whether the answer to another ask can be kept.
func (a *ReadAhead) hasSpace() bool {
	asked := len(a.asks) + 1
	return a.bytes+asked*(AskBytes+2*record.MaxPartBytes) <= readAheadMost && len(a.came)+asked*AskMessages <= 2*AsksAtOnce*AskMessages
}

// Begin is called when a range is asked for.
func (a *ReadAhead) Begin(now time.Time, want span) *Ask {
	asked := &Ask{want, want.From - 1, now}
	a.asks = append(a.asks, asked)
	if len(a.missing) > 0 && a.missing[0].From == want.From {
		if a.missing[0].From = want.To + 1; a.missing[0].From > a.missing[0].To {
			a.missing = a.missing[1:]
		}
	}
	a.Front = max(a.Front, want.To)
	return asked
}

// Take keeps a message that came in answer to an ask, and reports whether more may come.
func (a *ReadAhead) Take(now time.Time, ask *Ask, next, sequence uint64, data []byte) {
	if sequence <= ask.last {
		return
	}
	if sequence > ask.last+1 {
		a.holes = append(a.holes, span{ask.last + 1, sequence - 1})
		if sequence > ask.To { // it went on after the whole range
			a.Front = max(a.Front, sequence)
			ask.To = sequence
		}
	}
	a.answered(now, ask)
	ask.last = sequence
	a.Known = max(a.Known, sequence)
	a.wait, a.until, a.hard = 0, time.Time{}, false
	a.usual = cmp.Or(a.usual, len(data)) + (len(data)-cmp.Or(a.usual, len(data)))/8
	if sequence < next || a.came[sequence] != nil {
		return
	}
	a.Keep(sequence, data)
}

// Own keeps a message that this node wrote, if there is space, so that it need not be read.
func (a *ReadAhead) Own(next, sequence uint64, data []byte) {
	a.forget(next)
	if sequence >= next && a.came[sequence] == nil && a.hasSpace() {
		a.Known = max(a.Known, sequence)
		if sequence == a.Front+1 {
			a.Front = sequence
		}
		a.Keep(sequence, data)
	}
}

// Keep is also for a message that could not be applied, and is retried.
func (a *ReadAhead) Keep(sequence uint64, data []byte) {
	if a.came == nil {
		a.came = map[uint64][]byte{}
	}
	if data == nil { // nil would mean that it has not come
		data = []byte{}
	}
	a.came[sequence] = data
	a.bytes += len(data)
}

// End ends an ask. pending is how many messages the replica still has after the last one it sent. If there are none, the rest of
// the range is on its way to it, or was never written.
func (a *ReadAhead) End(now time.Time, ask *Ask, pending uint64) {
	if !a.drop(ask) {
		return
	}
	a.answered(now, ask)
	a.hard = false // somebody answers
	if pending > 0 && ask.last >= ask.From {
		a.Known = max(a.Known, ask.last+pending)
		return
	}
	switch {
	case ask.last >= ask.To:
	case ask.last < a.Known: // announced, and not there yet: on its way to this replica, or lost
		a.pause(now, min(max(2*a.wait, followSoon), followOn), false)
	default:
		a.pause(now, FollowEvery, false)
	}
}

// answered takes note that something came of an ask: the next answer may take some times as long.
func (a *ReadAhead) answered(now time.Time, ask *Ask) {
	a.patience = min(max(silentTrips*now.Sub(ask.heard), silentLeast), silentMost)
	ask.heard = now
}

// GiveUp ends an ask that is silent. The range is asked for again at once, with twice the patience, and in the end as after Fail.
func (a *ReadAhead) GiveUp(now time.Time, ask *Ask) (first bool) {
	if now.Equal(a.gaveUp) { // together with another
		a.drop(ask)
		return false
	}
	a.gaveUp = now
	if a.patience == silentMost {
		return a.Fail(now, ask)
	}
	a.patience = min(2*max(a.patience, silentLeast), silentMost)
	a.drop(ask)
	return false
}

// Fail ends an ask that nobody answers, or in an error, and asks less often. It tells
// whether this is the first time, which is worth a line in the log.
func (a *ReadAhead) Fail(now time.Time, ask *Ask) (first bool) {
	if !a.drop(ask) {
		return false
	}
	return a.failed(now)
}

// failed is fail of what could not even be asked, or not be applied.
func (a *ReadAhead) failed(now time.Time) (first bool) {
	first = !a.hard
	if !a.hard {
		a.wait = 0
	}
	if now.Before(a.until) && a.hard { // asks that failed together
		return false
	}
	a.pause(now, min(2*max(a.wait, FollowEvery), RetryMost), true)
	return first
}

func (a *ReadAhead) pause(now time.Time, wait time.Duration, hard bool) {
	if a.hard && !hard {
		return // something else still fails
	}
	a.wait, a.until, a.hard = wait, now.Add(wait), hard
}

// drop takes an ask off the list; the rest of its range is to be asked for again.
func (a *ReadAhead) drop(ask *Ask) bool {
	at := slices.Index(a.asks, ask)
	if at < 0 {
		return false
	}
	a.asks = slices.Delete(a.asks, at, at+1)
	switch {
	case ask.last >= ask.To:
	case ask.To == a.Front:
		a.Front = ask.last
	default:
		a.missing = append(a.missing, span{ask.last + 1, ask.To})
		slices.SortFunc(a.missing, func(x, y span) int { return cmp.Compare(x.From, y.From) })
	}
	return true
}

// Silent is an ask of which nothing came for a while.
func (a *ReadAhead) Silent(now time.Time) *Ask {
	for _, ask := range a.asks {
		if now.Sub(ask.heard) >= max(a.patience, silentLeast) {
			return ask
		}
	}
	return nil
}

// Turn takes out the message to apply after next-1. It is message next, or the first one after it if the replica does
// not have that one.
func (a *ReadAhead) Turn(next uint64) (sequence uint64, data []byte, ok bool) {
	a.forget(next)
	sequence = a.nextOf(next)
	if data = a.came[sequence]; data == nil {
		return 0, nil, false
	}
	delete(a.came, sequence)
	a.bytes -= len(data)
	return sequence, data, true
}

func (a *ReadAhead) ready(next uint64) bool { return a.came[a.nextOf(next)] != nil }

func (a *ReadAhead) nextOf(next uint64) uint64 {
	if a.came[next] == nil {
		if at := slices.IndexFunc(a.holes, func(s span) bool { return s.From <= next && next <= s.To }); at >= 0 {
			return a.holes[at].To + 1
		}
	}
	return next
}

// forget drops what is before next: it was applied, perhaps in another way.
func (a *ReadAhead) forget(next uint64) {
	before := func(s span) bool { return s.To < next }
	a.holes, a.missing = slices.DeleteFunc(a.holes, before), slices.DeleteFunc(a.missing, before)
	if len(a.missing) > 0 {
		a.missing[0].From = max(a.missing[0].From, next)
	}
	a.Front, a.Known = max(a.Front, next-1), max(a.Known, next-1)
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

// Due is when want may have another answer, or an ask is silent, though nothing comes;
// zero: never.
func (a *ReadAhead) Due(now time.Time) (due time.Time) {
	if a.until.After(now) {
		due = a.until
	}
	for _, ask := range a.asks {
		if at := ask.heard.Add(max(a.patience, silentLeast)); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}
