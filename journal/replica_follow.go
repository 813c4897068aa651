package journal

import (
	"errors"
	"fmt"
	"time"
)

// source is where a replica gets what did not come by itself.
type source interface {
	// message reads one message of the journal. The error wraps errLost if nobody
	// has it any more, and errLeftBehind if it was trimmed.
	message(sequence uint64) ([]byte, error)

	// resend asks the process of an origin for a part of a flush.
	resend(of life, flush, part uint64) ([]byte, error)
}

var (
	// errLost is why a message is passed over: its origin may send it again.
	errLost = errors.New("no replica of the journal has the message")

	// errLeftBehind is why a node must start again.
	errLeftBehind = errors.New("the journal was trimmed beyond what this node has applied: it must be restarted, and will begin with the newest snapshots")
)

// next is the sequence that comes after what was applied.
func (r *replica) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.audit.stream + 1
}

// follow applies the journal's message of a sequence, and those before it that did
// not come. It returns the bytes of messages of other origins. After an error it
// may be called again.
func (r *replica) follow(now time.Time, sequence uint64, data []byte, from source) (others int, err error) {
	if others, err = r.followTo(now, sequence-1, from); err != nil {
		return others, err
	}
	n, err := r.applyOne(now, sequence, data, from)
	return others + n, err
}

// followTo applies all messages up to a sequence.
func (r *replica) followTo(now time.Time, sequence uint64, from source) (others int, err error) {
	for next := r.next(); next <= sequence; next++ {
		data, err := from.message(next)
		switch {
		case errors.Is(err, errLost):
			r.skip(next)
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

// skip goes on after a message that is lost.
func (r *replica) skip(sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holes++
	r.audit.skip(sequence + 1)
}

func (r *replica) applyOne(now time.Time, sequence uint64, data []byte, from source) (others int, err error) {
	if sequence < r.next() {
		return 0, nil // it came by itself meanwhile
	}
	p, err := decodePart(data)
	if errors.Is(err, errDamaged) {
		r.skip(sequence)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("journal message %d: %w", sequence, err)
	}
	again := r.askAgain(p, from)
	if p.removes() || p.part > 0 || len(again) > 0 { // the flush that it completes may remove
		r.cutting.Lock()
		defer r.cutting.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range again {
		if got.last {
			r.repaired++
		}
		if err := r.audit.applyParts(r.to, r.audit.lane(got.origin).part("a flush sent again", got)); err != nil {
			return 0, err
		}
	}
	if err := r.audit.applyParts(r.to, r.audit.next(sequence, p)); err != nil {
		return 0, err
	}
	r.audit.reportMissing()
	if p.removes() || p.part > 0 {
		r.reportUnsure()
	}
	if r.audit.self != (life{}) { // else it is of the past
		r.audit.lane(p.origin).arrived(now, r.stamped(now))
		r.audit.now = now
	}
	if p.origin == r.audit.origin {
		return 0, nil
	}
	return len(data), nil
}

// maxResend is how many flushes a gap may have to be asked for.
const maxResend = 1000

// askAgain asks the origin of a message for the flushes between the last one here
// and the message's. What it does not get, the audit finds.
func (r *replica) askAgain(p part, from source) (again []part) {
	r.mu.Lock()
	first, number, ok := r.audit.lane(p.origin).gap(p)
	r.mu.Unlock()
	if !ok || p.flush-first > maxResend {
		return nil
	}
	for flush := first; flush <= p.flush; flush++ {
		for ; flush < p.flush || number < p.part; number++ {
			data, err := r.ring.get(flush, number), error(nil)
			if p.life != r.audit.self {
				data, err = from.resend(p.life, flush, number)
			}
			if err != nil {
				return again
			}
			got, err := decodePart(data)
			if err != nil || got.life != p.life || got.flush != flush || got.part != number {
				return again
			}
			again = append(again, got)
			if got.last {
				break
			}
		}
		number = 0
	}
	return again
}

// maxFindings bounds what is kept of them; all are counted.
const maxFindings = 1000

// newFindings are what the audit found since the call before, which is an alarm:
// some node's hits are not here.
func (r *replica) newFindings() (list []Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list = append(list, r.audit.findings[r.told:]...)
	if len(r.audit.findings) > maxFindings {
		r.audit.findings = r.audit.findings[:maxFindings]
	}
	r.told = len(r.audit.findings)
	return list
}
