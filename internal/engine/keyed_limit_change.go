package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/limit"
)

// Refund gives back up to n admissions that the key took, all at one time. It returns by how many more are free for it.
// That is less than n if some have left the window, or the bucket has filled since. taken is by the time of day; the
// zero Time stands for the newest admissions. The limit holds for what was really used, if taken is right.
//
// A change to what a key has used is journaled as its admissions are. The error is an Error as of Take.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	limits := l.engine.limits
	at := int64(admission.Newest)
	if !taken.IsZero() {
		if at, err = unixNano("taken", taken); err != nil {
			return 0, err
		}
		at -= limits.Clock.Ahead()
	}
	free, err = limits.Refund(l.plan.Load(), l.engine.keys.PartitionOf(key), key, at, n)
	return free, err
}

// Reset forgets what the key has used of all limits of the name, and its grant: it has its whole burst again. This
// includes limits that the nodes of a cluster count separately. It reports whether there was something to forget.
func (l *KeyedLimit) Reset(key string) (was bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	return l.engine.limits.Reset(l.name, l.engine.keys.PartitionOf(key), key)
}

// MaxGrants is how many grants an engine makes that are not over.
const MaxGrants = admission.MaxGrants

// Grant gives the key n admissions in addition to the limit, 1 to limit.MaxBurst, usable until a time of day. A request
// that the limit would deny uses what is left of the limit, and takes the rest from the grant. A grant replaces an
// earlier grant of the key; the same n and until again change nothing, so it may be sent again. n = 0 takes it back. All limits of the
// name share one grant.
func (l *KeyedLimit) Grant(key string, n uint64, until time.Time) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if n > limit.MaxBurst {
		return &Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("a grant of %d: at most %d", n, uint64(limit.MaxBurst))}
	}
	var at int64
	if n > 0 {
		var err error
		if at, err = unixNano("until", until); err != nil {
			return err
		}
		if now := l.engine.clock.Wall.Time(); !until.After(now) {
			return &Error{Code: api.CodeInvalidTime, Field: "until", Message: fmt.Sprintf("%s is over: it is %s", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
		}
	}
	return l.engine.limits.Grant(l.name, l.engine.keys.PartitionOf(key), key, n, at/int64(time.Millisecond))
}

// unixNano is a time that an int64 has.
func unixNano(field string, t time.Time) (int64, error) {
	if s := t.Unix(); s < 0 || s > 9_000_000_000 {
		return 0, &Error{Code: api.CodeInvalidTime, Field: field, Message: fmt.Sprintf("%s: must be 1970 to 2255", t.UTC().Format(time.RFC3339))}
	}
	return t.UnixNano(), nil
}

const (
	// MaxBan is how long a ban is at most.
	MaxBan = 366 * 24 * time.Hour

	// MaxBans is how many bans an engine makes that are not over.
	MaxBans = admission.MaxBans
)

// KeyBan is a ban: the key is denied under the limit of the name, until a time of day.
type KeyBan = admission.KeyBan

// Ban bans a key of a limit for 1 ms to MaxBan from now, whatever it has used. It replaces an earlier ban; 0 lifts it.
// With a journal, other nodes know the ban when they have followed the next flush, and a restart keeps it. The error is
// api.CodeOverloaded if there are too many bans. A ban denies nothing by itself: the caller that decides asks for it.
func (e *Engine) Ban(name, key string, length time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if length < 0 || length > MaxBan {
		return &Error{Code: api.CodeInvalidTime, Field: "for", Message: fmt.Sprintf("a ban for %s: must be more than 0, and at most 366 days", length)}
	}
	until := int64(0)
	if length > 0 {
		limits := e.limits
		until = (limits.Clock.Now() + limits.Clock.Ahead() + int64(length)) / int64(time.Millisecond)
	}
	return e.limits.Ban(name, e.keys.PartitionOf(key), key, until)
}

// Banned is for how long a key is banned under the limit of a name; 0: it is not.
func (e *Engine) Banned(name, key string) time.Duration {
	if !e.limits.AnyBanned() {
		return 0
	}
	until, now := e.limits.Banned(name, e.keys.PartitionOf(key), key)
	return time.Duration(max(0, until-now)) * time.Millisecond
}

// Bans lists the bans that are not over, at most n, those that end last first.
//
// Cost: O(bans).
func (e *Engine) Bans(n int) []KeyBan { return e.limits.Bans(n) }

// newKeyedLimit makes one without a plan, by the name that its states are kept by and the one that it was given.
func (e *Engine) newKeyedLimit(name *admission.Name, shown string) *KeyedLimit {
	return &KeyedLimit{engine: e, name: name, shown: shown}
}

// Where is the argument of LimitIn; of a limit that Engine.Limit made, leased.
func (l *KeyedLimit) Where() limit.Where {
	switch {
	case l.strict && !l.leased:
		return limit.WhereStrict
	case strings.IndexByte(l.name.Name, admission.NodeMark) >= 0:
		return limit.WhereNode
	}
	return limit.WhereLeased
}

// LimitIn is Engine.Limit for the node of that name in a cluster. Every node must have its own name, and keep it for
// ever. A name has 1 to MaxLimitNameBytes letters, digits or any of ._- in it.
//
// The admissions of a leased or strict limit are journaled whatever its period. For a node's own limit, Limit says
// which are journaled. What a key has used is kept separately for each node if the limit belongs to one node. Leased
// and strict limits of one name are one limit.
func (e *Engine) LimitIn(node string, where limit.Where, name string, l Limit) (*KeyedLimit, error) {
	if err := checkLimitName(name); err != nil {
		return nil, err
	}
	if !admission.IsNodeName(node) {
		return nil, &Error{Code: api.CodeInvalidLimit, Field: "node", Message: fmt.Sprintf("the name %.80q of a node: must be 1 to %d letters, digits or any of ._-", node, MaxLimitNameBytes)}
	}
	kept := name
	switch where {
	case limit.WhereNode:
		kept = admission.OfNode(name, node)
	case limit.WhereStrict, limit.WhereLeased:
	default:
		return nil, &Error{Code: api.CodeInvalidLimit, Field: "where", Message: fmt.Sprintf("%v: must be leased, node or strict", where)}
	}
	return e.keyedLimit(kept, name, l, func(made *KeyedLimit) {
		made.journaled, made.leased = where != limit.WhereNode, where == limit.WhereLeased
		made.strict = made.leased || where == limit.WhereStrict
	})
}

// Record is the limit in bytes: LimitOfRecord of another node's engine makes it again.
func (l *KeyedLimit) Record() string { return l.plan.Load().Record }

// LimitOfRecord is the limit that a Record tells of, to decide what another node
// asks. The error wraps replication.ErrDamagedState for a record that is none.
func (e *Engine) LimitOfRecord(record string) (*KeyedLimit, error) {
	plan, err := e.limits.Recorded(record)
	if err != nil {
		return nil, err
	}
	kl := e.newKeyedLimit(plan.Name, plan.Name.Name)
	kl.journaled, kl.strict, kl.inline = true, plan.Strict, plan.Inline
	kl.plan.Store(plan)
	return kl, nil
}

// Inline makes l a limit that requests bring along, as it is from now on: see
// Engine.ForgetInline. It is for a limit that nothing was asked of yet.
func (l *KeyedLimit) Inline() error {
	l.inline = true
	return l.SetLimit(l.Limit())
}

// ForgetInline forgets what keys have used of the inline limit of a name, or with "" of all: each has its whole burst
// again. It returns how many states there were here. With a journal, other nodes forget too when they follow the next
// flush, and a restart brings nothing back. Admissions that another node makes meanwhile may stay.
//
// Cost: O(keys with limits in use), a partition at a time.
func (e *Engine) ForgetInline(name string) (states int, err error) {
	if name != "" {
		if err := checkLimitName(name); err != nil {
			return 0, err
		}
	}
	return e.limits.ForgetInline(name)
}

// ForgetKeys forgets what the keys that begin with prefix have used of all limits, with their grants and bans. It is
// KeyedLimit.Reset of all of them. It returns how many keys had something to forget here, each counted for each limit.
// With a journal, other nodes forget too when they follow the next flush, and a restart brings nothing back. Admissions
// that another node makes meanwhile may stay. The error is api.CodeInvalidKey if the prefix is empty or longer than a
// key, and api.CodeOverloaded while the journal can take no more.
//
// Cost: O(keys with limits in use), a partition at a time.
func (e *Engine) ForgetKeys(prefix string) (keys int, err error) {
	if err := checkKey(prefix); err != nil {
		return 0, err
	}
	return e.limits.ForgetKeys(prefix)
}

// InlineNames are the names of the inline limits of which a key has used something, as far as it is known here.
//
// Cost: O(keys with limits in use) of one partition.
func (e *Engine) InlineNames(key string) []string {
	if checkKey(key) != nil {
		return nil // which has used nothing
	}
	return e.limits.InlineNames(e.keys.PartitionOf(key), key)
}

// LimitClock is the clock that limits are kept by: monotonic, in ns.
func (e *Engine) LimitClock() int64 { return e.limits.Clock.Now() }

// Use counts n admissions of a key that were made at the time at, by Now, without asking.
func (e *Engine) Use(l *KeyedLimit, key string, at int64, n uint64) {
	e.limits.Use(l.plan.Load(), e.keys.PartitionOf(key), key, at, n)
}

// SetOut notes how much of a key's limit a node has granted to others, for held from now on. It replaces
// what was noted before of that key and node, and goes to the journal with the next flush.
func (e *Engine) SetOut(l *KeyedLimit, holder, key string, held time.Duration, out uint64) error {
	return e.limits.SetOut(l.plan.Load(), holder, e.keys.PartitionOf(key), key, held, out)
}

// Outs calls f with all that is out of keys in some partitions. f must not call the engine.
func (e *Engine) Outs(in func(partition int) bool, f func(admission.Out)) {
	e.limits.Outs(in, f)
}

// Reservation is admissions for what a request may need, to be settled once it is known what it did need.
type Reservation = admission.Reservation

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
				return Verdict{}, &Error{Code: api.CodeKeyReused, Field: "id", Message: "this id belongs to a reservation with other content: use a new id for each reservation"}
			}
			return l.Peek(key, 0)
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
	if _, err = l.NoteReserved(key, n, r, time.Since(began), false); err != nil {
		_, _ = l.Refund(key, n, time.Time{}) // what was just taken
	}
	return v, err
}

// Settle says how many of a reservation's admissions were used. It gives the rest back, as Refund does. With debt, what
// was used beyond them counts whatever the limit says; else it counts only if all of it fits the limit. Settled again
// within a minute, Settle returns the first result, or fails with api.CodeKeyReused if used is another number. Known is false if there is no such reservation, or its time is
// over.
func (l *KeyedLimit) Settle(key, id string, used uint64, debt bool) (Settled, error) {
	if err := checkKey(key); err != nil {
		return Settled{}, err
	}
	return l.engine.limits.Settle(l.plan.Load(), l.engine.keys.PartitionOf(key), key, id, used, debt)
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
	return l.engine.limits.RefusesReservations()
}

// NoteReserved notes admissions that were taken a moment ago as reserved: see Reserve. again says that another node asked for the
// same before: nothing was noted, and the admissions are to be given back. If known, another node decides for the key, and this node
// only keeps a record of it.
func (l *KeyedLimit) NoteReserved(key string, n uint64, r Reservation, ago time.Duration, known bool) (again bool, err error) {
	if err := l.checkReservation(key, r); err != nil {
		return false, err
	}
	return l.engine.limits.Reserve(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n, r, ago, known)
}

// Reserved lists the parts of a reservation that is known here, and not over.
func (e *Engine) Reserved(id string) (parts []ReservedPart) {
	parts = e.limits.Reserved(id)
	for i := range parts {
		parts[i].Name = admission.BaseName(parts[i].Name)
	}
	return parts
}

// OpenReservations calls f with each part of a reservation that is not settled: the limit's name, the key, and how many it
// has reserved. f must not call the engine.
//
// Cost: O(reservations).
func (e *Engine) OpenReservations(f func(name, key string, n uint64)) {
	e.limits.OpenReservations(func(name, key string, n uint64) { f(admission.BaseName(name), key, n) })
}

// RefusesReservation is api.CodeOverloaded while there is no memory for a reservation more, and api.CodeKeyReused if the
// ID is of one that was over a moment ago.
func (e *Engine) RefusesReservation(id string) error {
	if e.limits.Ended(id) {
		return &Error{Code: api.CodeKeyReused, Field: "id", Message: "this id belongs to a reservation that has ended: use a new id for each reservation"}
	}
	return e.limits.RefusesReservations()
}

// Permit does what a holder asks for a key: the change is one of permits. Of the limit, N is how many hold a permit at most, and Per
// for how long after a heartbeat.
func (l *KeyedLimit) Permit(do ChangeKind, key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	most := l.Limit()
	return l.engine.limits.Permit(admission.PermitRequest(do-ChangeTakePermit), l.name.Name, l.engine.keys.PartitionOf(key), key, holder, int(most.N), most.Per)
}

// Grants calls f with each grant that is in use. f must not call the engine.
func (e *Engine) Grants(f func(name, key string)) { e.limits.Grants(f) }

// Permits calls f with each key that has permits held, as far as this engine knows, by the name of the limit. f must
// not call the engine.
//
// Cost: O(permits).
func (e *Engine) Permits(f func(name, key string, held int)) { e.limits.Permits(f) }
