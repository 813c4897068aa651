package engine

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
)

// Reservation is admissions for what a request may need, to be settled once it is known what
// it did need.
type Reservation struct {
	ID       string    // 1 to MaxReservationID bytes, another for each
	Until    time.Time // required: it can be settled until then, at most MaxReservation from now
	GiveBack bool      // what is not settled until then is given back; else it stays used
	Content  uint64    // identifies what is asked for, if the ID may come again: another content is refused. 0: not checked
	Parts    uint64    // how many limits and keys have a reservation with the ID; 0: not known
}

const (
	// MaxReservationID is the longest ID, in bytes.
	MaxReservationID = admission.MaxReservationID

	// MaxReservation is how long a reservation lasts at most.
	MaxReservation = 24 * time.Hour

	// MaxReservations is how many an engine knows that are neither over nor settled, counted for each limit.
	MaxReservations = admission.MaxReservations
)

// Settled is how a reservation was settled.
type Settled = admission.Settled

// ReservedPart is what a reservation has of one limit, by the name that the limit was given.
type ReservedPart = admission.Part

// Reserve is Take of n admissions that Settle says later how many were used of; without it all stay
// used, or none, as r says. It is journaled with them. The same ID again, for the same key, takes nothing more; with another
// Content or n it is api.CodeKeyReused.
func (l *KeyedLimit) Reserve(key string, n uint64, r Reservation) (Verdict, error) {
	if err := l.checkReservation(key, r); err != nil {
		return Verdict{}, err
	}
	for _, part := range l.engine.limits.Reserved(r.ID) {
		if part.Name == l.name.Name && part.Key == key {
			if part.N != n || part.Content != r.Content {
				return Verdict{}, &Error{Code: api.CodeKeyReused, Field: "id", Message: "this id is of a reservation of another n or content: use a new id for each reservation"}
			}
			v, err := l.Peek(key, 0)
			return v, err
		}
	}
	if err := l.engine.RefusesReservation(r.ID); err != nil {
		return Verdict{}, err
	}
	began := time.Now()
	v, err := l.Take(key, n)
	if err != nil || !v.Allowed || n == 0 {
		return v, err
	}
	if err = l.noteReserved(key, n, r, time.Since(began), false); err != nil {
		_, _ = l.Refund(key, n, time.Time{}) // what was just taken
	}
	return v, err
}

// Settle says how many of a reservation's admissions were used. It gives the rest back, as Refund does. With debt, what
// was used beyond them counts whatever the limit says; else it counts only if all of it fits the limit. Settled again
// within a minute, Settle returns the first result. Known is false if there is no such reservation, or its time is
// over.
func (l *KeyedLimit) Settle(key, id string, used uint64, debt bool) (Settled, error) {
	if err := checkKey(key); err != nil {
		return Settled{}, err
	}
	done, err := l.engine.limits.Settle(l.plan.Load(), l.engine.keys.PartitionOf(key), key, id, used, debt)
	return done, limitError(err)
}

// Unreserve gives a part of a reservation back, and forgets it, as if it had not been made. It is false for one that is not known, or
// settled.
func (l *KeyedLimit) Unreserve(key, id string) (known bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	return l.engine.limits.Unreserve(l.plan.Load(), l.engine.keys.PartitionOf(key), key, id), nil
}

func (l *KeyedLimit) checkReservation(key string, r Reservation) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.engine.clock.Wall.Time()
	switch left := r.Until.Sub(now); {
	case len(r.ID) < 1 || len(r.ID) > MaxReservationID:
		return &Error{Code: api.CodeInvalidKey, Field: "id", Message: fmt.Sprintf("the id of a reservation has %d bytes: must have 1 to %d", len(r.ID), MaxReservationID)}
	case r.Until.IsZero():
		return &Error{Code: api.CodeInvalidTime, Field: "ttl", Message: fmt.Sprintf("Until is not set: a reservation needs a time within %v from now", MaxReservation)}
	case left <= 0 || left > MaxReservation:
		return &Error{Code: api.CodeInvalidTime, Field: "ttl", Message: fmt.Sprintf("a reservation for %v: must be more than 0, and at most %v", left, MaxReservation)}
	}
	return limitError(l.engine.limits.RefusesReservations())
}

func (l *KeyedLimit) noteReserved(key string, n uint64, r Reservation, ago time.Duration, known bool) error {
	return limitError(l.engine.limits.Reserve(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n,
		admission.Reservation{ID: r.ID, Until: r.Until.UnixMilli(), Back: r.GiveBack, Content: r.Content, Parts: r.Parts, Ago: ago}, known))
}

// NoteReserved notes admissions that were taken a moment ago as reserved: see Reserve. If known, another node decides
// for the key, and this node only keeps a record of it.
func (l *KeyedLimit) NoteReserved(key string, n uint64, r Reservation, ago time.Duration, known bool) error {
	if err := l.checkReservation(key, r); err != nil {
		return err
	}
	return l.noteReserved(key, n, r, ago, known)
}

// Reserved lists the parts of a reservation that is known here, and not over.
func (e *Engine) Reserved(id string) (parts []ReservedPart) {
	parts = e.limits.Reserved(id)
	for i := range parts {
		parts[i].Name = admission.BaseName(parts[i].Name)
	}
	return parts
}

// OpenReservations calls f with the key of each part of a reservation that is not settled. f must not call the engine.
//
// Cost: O(reservations).
func (e *Engine) OpenReservations(f func(key string)) { e.limits.OpenReservations(f) }

// RefusesReservation is api.CodeOverloaded while there is no memory for a reservation more, and api.CodeKeyReused if the ID is of
// one that was over a moment ago.
func (e *Engine) RefusesReservation(id string) error {
	if e.limits.Ended(id) {
		return &Error{Code: api.CodeKeyReused, Field: "id", Message: "this id is of a reservation that is over: use a new id for each reservation"}
	}
	return limitError(e.limits.RefusesReservations())
}

// TakePermit gives a holder a permit of a key. Of the limit, N is how many hold a permit at most, and Per
// for how long after a heartbeat.
func (l *KeyedLimit) TakePermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	of := l.Limit()
	p, err = l.engine.limits.TakePermit(l.name.Name, l.engine.keys.PartitionOf(key), key, holder, int(of.N), of.Per)
	return p, limitError(err)
}

// RenewPermit is the heartbeat of a holder: its permit lasts for another Per from now.
func (l *KeyedLimit) RenewPermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	p, err = l.engine.limits.RenewPermit(l.name.Name, l.engine.keys.PartitionOf(key), key, holder, l.Limit().Per)
	return p, limitError(err)
}

// ReleasePermit gives a permit back. OK says whether the holder had one.
func (l *KeyedLimit) ReleasePermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	p, err = l.engine.limits.ReleasePermit(l.name.Name, l.engine.keys.PartitionOf(key), key, holder)
	return p, limitError(err)
}

// Grants calls f with each grant that is in use. f must not call the engine.
func (e *Engine) Grants(f func(name, key string)) { e.limits.Grants(f) }

// Permits calls f with each key that has permits held, as far as this engine knows, by the name of the limit. f must
// not call the engine.
//
// Cost: O(permits).
func (e *Engine) Permits(f func(name, key string, held int)) { e.limits.Permits(f) }
