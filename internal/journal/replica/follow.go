package replica

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Source is where a replica gets what did not come by itself.
type Source interface {
	// Message reads one message of the journal. The error wraps ErrLost if nobody
	// has it any more, and ErrLeftBehind if it was trimmed.
	Message(sequence uint64) ([]byte, error)

	// Resend asks the process of an origin for a part of a flush.
	Resend(origin record.Incarnation, flush, part uint64) ([]byte, error)
}

var (
	// ErrLost is why a message is passed over: its origin may send it again.
	ErrLost = errors.New("no replica of the journal has the message")

	// ErrLeftBehind is why a node must start again.
	ErrLeftBehind = errors.New("the journal was trimmed beyond what this node has applied: it must be restarted, and will begin with the newest snapshots")
)

// Next is the sequence that comes after what was applied.
func (r *Replica) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.audit.Stream + 1
}

// Follow applies the journal's message of a sequence, and those before it that did
// not come. It returns the bytes of messages of other origins. After an error it
// may be called again.
func (r *Replica) Follow(now time.Time, sequence uint64, data []byte, from Source) (others int, err error) {
	if others, err = r.FollowTo(now, sequence-1, from); err != nil {
		return others, err
	}
	n, err := r.applyOne(now, sequence, data, from)
	return others + n, err
}

// FollowTo applies all messages up to a sequence.
func (r *Replica) FollowTo(now time.Time, sequence uint64, from Source) (others int, err error) {
	for next := r.Next(); next <= sequence; next++ {
		data, err := from.Message(next)
		switch {
		case errors.Is(err, ErrLost):
			r.skip(now, next)
			continue
		case err != nil:
			return others, err
		}
		n, err := r.applyOne(now, next, data, from)
		if others += n; err != nil {
			return others, err
		}
	}
	return others, nil
}

func (r *Replica) skip(now time.Time, sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foundHole(now)
	r.audit.skip(sequence + 1)
}

func (r *Replica) applyOne(now time.Time, sequence uint64, data []byte, from Source) (others int, err error) {
	if sequence < r.Next() {
		return 0, nil // it came by itself meanwhile
	}
	p, err := record.DecodePart(data)
	if errors.Is(err, record.ErrDamaged) {
		r.skip(now, sequence)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("journal message %d: %w", sequence, err)
	}
	again := r.askAgain(p, from)
	if p.Removes() || len(p.Requests) > 0 && p.Incarnation == r.audit.self || p.Number > 0 || len(again) > 0 { // the flush that it completes may remove
		r.cutting.Lock()
		defer r.cutting.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range again {
		if got.Last {
			r.repaired++
		}
		r.noteClaims(sequence, got)
		if err := r.audit.applyParts(r.to, r.audit.progressOf(got.Origin).part("a flush sent again", got)); err != nil {
			return 0, err
		}
	}
	r.noteClaims(sequence, p)
	if err := r.audit.applyParts(r.to, r.audit.next(sequence, p)); err != nil {
		return 0, err
	}
	_ = r.reportRefused(r.audit.progressOf(p.Origin)) // findings say it
	r.audit.reportMissing()
	if p.Removes() || p.Number > 0 {
		r.reportUnsure()
	}
	if r.audit.self != (record.Incarnation{}) { // else the message is from the past
		r.audit.progressOf(p.Origin).arrived(now, r.stamped(now))
		r.audit.now = now
	}
	if p.Origin == r.audit.Origin {
		return 0, nil
	}
	return len(data), nil
}

// reportRefused names what the engine did not take of the flushes of an origin. The caller holds mu.
func (r *Replica) reportRefused(l *Progress) (first error) {
	for _, b := range r.holding.failed {
		first = cmp.Or(first, b.err)
		where := "receipts"
		if b.Seq > 0 {
			where = fmt.Sprintf("partition %d", b.Partition)
		}
		if !b.OfLimits() {
			l.positions[b.Partition].Lost += b.N
		}
		r.audit.find(l.named(where), b.err.Error(), "what this batch has")
	}
	r.holding.failed = nil
	return first
}

// Claim is the last claim of the limits of a group in the journal, as far as it was followed.
type Claim struct {
	By      record.Incarnation
	Message uint64 // of the journal, in which it came first
}

// noteClaims takes in the claims of a part, unless it came before. The caller holds mu, and has not applied the part.
func (r *Replica) noteClaims(message uint64, p record.Part) {
	at := r.audit.progressOf(p.Origin)
	if p.Epoch < at.epoch || p.Epoch == at.epoch && p.Flush <= at.flush {
		return
	}
	for _, b := range p.Batches {
		if b.Kind == record.KindClaim && b.Partition < len(r.claims) {
			r.claims[b.Partition].Store(&Claim{p.Incarnation, message})
		}
	}
}

// ClaimOf is the last claim of a partition's group that was followed, in this life of the node; zero: there was none. It takes
// no lock.
func (r *Replica) ClaimOf(partition int) (c Claim) {
	if last := r.claims[partition].Load(); last != nil {
		c = *last
	}
	return c
}

// maxResend is how many flushes a gap may have to be asked for.
const maxResend = 1000

// askAgain asks the origin of a message for the flushes between the last one here
// and the message's. What it does not get, the audit finds.
func (r *Replica) askAgain(p record.Part, from Source) (again []record.Part) {
	r.mu.Lock()
	first, number, ok := r.audit.progressOf(p.Origin).gap(p)
	r.mu.Unlock()
	if !ok || p.Flush-first > maxResend {
		return nil
	}
	for flush := first; flush <= p.Flush; flush++ {
		for ; flush < p.Flush || number < p.Number; number++ {
			data, err := r.resends.get(flush, number), error(nil)
			if p.Incarnation != r.audit.self {
				data, err = from.Resend(p.Incarnation, flush, number)
			}
			if err != nil {
				return again
			}
			got, err := record.DecodePart(data)
			if err != nil || got.Incarnation != p.Incarnation || got.Flush != flush || got.Number != number {
				return again
			}
			again = append(again, got)
			if got.Last {
				break
			}
		}
		number = 0
	}
	return again
}

// maxFindings bounds what is kept of them; all are counted.
const maxFindings = 1000

// NewFindings are what the audit found since the call before, which is an alarm:
// some node's hits are not here.
func (r *Replica) NewFindings() (list []record.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list = append(list, r.audit.Findings[r.reported:]...)
	if len(r.audit.Findings) > maxFindings {
		r.audit.Findings = r.audit.Findings[:maxFindings]
	}
	r.reported = len(r.audit.Findings)
	return list
}

// ApplyAlone counts a flush of a backup where nobody else writes the journal.
func (r *Replica) ApplyAlone(parts [][]byte) error {
	r.cutting.Lock()
	defer r.cutting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, data := range parts {
		p, err := record.DecodePart(data)
		if err != nil {
			return err
		}
		if err := r.audit.applyParts(r.to, r.audit.progressOf(p.Origin).part("a restored backup", p)); err != nil {
			return err
		}
		if err := r.reportRefused(r.audit.progressOf(p.Origin)); err != nil {
			return err
		}
	}
	return nil
}

// Follower follows the journal: it decides what to ask for, applies what came in its turn, and retries what could not
// be applied. A goroutine of the journal runs it with real clocks and replicas of the journal, the simulation with seeded ones.
type Follower struct {
	// Ahead has what is asked for and came. Hints and answers go to it.
	Ahead ReadAhead

	replica *Replica
	now     func() time.Time
	wait    time.Duration // after a message that could not be applied; 0: there is none
	until   time.Time     // of it
}

// NewFollower returns a Follower of the messages after those that r has applied.
func NewFollower(r *Replica, now func() time.Time) *Follower {
	return &Follower{replica: r, now: now}
}

// Asker puts asks to replicas of the journal. The answers are handed to Follower.Ahead: Take, and then End or Fail.
type Asker interface {
	Send(ask *Ask) error
	GiveUp(ask *Ask) // answers that still come are not to be handed over
}

// ErrSilent is why an ask was given up.
var ErrSilent = errors.New("no replica of the journal answers")

// Ask asks for as much as there is space for. failed is a new reason why asks fail, to be logged.
func (f *Follower) Ask(by Asker) (failed error) {
	now := f.now()
	fail := func(ask *Ask, err error) {
		if f.Ahead.Fail(now, ask) {
			failed = err
		}
	}
	for ask := f.Ahead.Silent(now); ask != nil; ask = f.Ahead.Silent(now) {
		by.GiveUp(ask)
		if f.Ahead.GiveUp(now, ask) {
			failed = ErrSilent
		}
	}
	next := f.replica.Next()
	for want, ok := f.Ahead.Want(now, next); ok; want, ok = f.Ahead.Want(now, next) {
		ask := f.Ahead.Begin(now, want)
		if err := by.Send(ask); err != nil {
			fail(ask, err)
		}
	}
	return failed
}

// Apply applies the message whose turn it is, and those before it that did not come: from has them. It returns the bytes of
// messages of other origins; ok is false if it is no message's turn. A message that could not be applied is retried, after a
// pause that doubles from FollowEvery to RetryMost; ErrLeftBehind does not heal.
func (f *Follower) Apply(from Source) (others int, ok bool, err error) {
	now := f.now()
	if now.Before(f.until) {
		return 0, false, nil
	}
	sequence, data, ok := f.Ahead.Turn(f.replica.Next())
	if !ok {
		return 0, false, nil
	}
	if others, err = f.replica.Follow(now, sequence, data, from); err == nil {
		f.wait, f.until = 0, time.Time{}
		return others, true, nil
	}
	f.Ahead.Keep(sequence, data)
	f.wait = min(2*max(f.wait, FollowEvery), RetryMost)
	f.until = f.now().Add(f.wait)
	return others, true, err
}

// Retrying reports whether the last message could not be applied.
func (f *Follower) Retrying() bool { return f.wait > 0 }

// Due is when there may be something to ask for or to apply though nothing comes; zero: never.
func (f *Follower) Due() (due time.Time) {
	now := f.now()
	due = f.Ahead.Due(now)
	if f.until.After(now) && (due.IsZero() || f.until.Before(due)) {
		due = f.until
	}
	return due
}

// LateAlarm returns the alarm for a late node. spent says that the journal has no space even for flushes without hits.
// The node then lacks space, not a quorum.
func LateAlarm(o OriginStatus, spent bool) api.Alarm {
	since := o.AsOf.UTC().Format(time.RFC3339) // as answers say it
	a := api.Alarm{Code: "node_late", Message: fmt.Sprintf("hits of %s since %s do not reach the journal, and are missing here", o.Node, since)}
	const why = "the journal is full (--max-disk), and takes no heartbeats of nodes until snapshots are stored and it is trimmed"
	switch {
	case o.Self && o.Why == Behind:
		a.Code, a.Message = "behind", fmt.Sprintf("this node applies the journal more than %v late: it can't keep up with what all nodes write, or gets no messages: look at its CPU, its disk and the links", LateAfter)
	case o.Self && spent:
		a.Code, a.Message = "unwritten", fmt.Sprintf("nothing that this node took since %s is known to be in the journal: %s", since, why)
	case o.Self:
		a.Code, a.Message = "unwritten", fmt.Sprintf("what this node took since %s is not in the journal: too few nodes reach each other, or their disks are full or slow", since)
	case o.Why == Unwritten && spent:
		a.Message += "; " + why
	case o.Why == Behind:
		a.Message = fmt.Sprintf("this node has not applied what %s took since %s", o.Node, since)
	case o.Why == Silent:
		a.Message = fmt.Sprintf("%s is not reachable since %s, and hits that it took since %s may be missing here: start it, or remove it for good (weir cluster remove)",
			o.Node, o.Heard.UTC().Format(time.RFC3339), since)
	}
	return a
}
