package weir

import (
	"context"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// KeyedLimit is a limit of an Engine that each key has for itself: 10 per second
// for each user, say. Engine.Limit makes it. It is safe for many goroutines.
type KeyedLimit engine.KeyedLimit

func (l *KeyedLimit) inner() *engine.KeyedLimit { return (*engine.KeyedLimit)(l) }

// Name is the limit's name, as it was given.
func (l *KeyedLimit) Name() string { return l.inner().Name() }

// Limit is what each key may do, the burst filled in.
func (l *KeyedLimit) Limit() Limit { return l.inner().Limit() }

// SetLimit changes the limit of all keys while it is in use. It grants no fresh
// allowance: what was admitted before counts under the new limit too.
func (l *KeyedLimit) SetLimit(to Limit) error { return l.inner().SetLimit(to) }

// Release says that the limit is asked no more: its name is forgotten when no key
// has it in use, and another name may take its place. Without it, an engine takes 10,000
// names.
func (l *KeyedLimit) Release() { l.inner().Release() }

// Allow admits one request of the key now, if its limit lets it. It is also false
// for a key that no limit can be kept for: Take says why.
//
// Cost: a look-up under the lock of the key's partition; O(1). No allocation
// but for a key whose limit was not in use.
func (l *KeyedLimit) Allow(key string) bool { return l.inner().AllowN(key, 1) }

// AllowN admits n requests of the key now, all or none.
func (l *KeyedLimit) AllowN(key string, n uint64) bool { return l.inner().AllowN(key, n) }

// Take admits n requests of the key now, all or none, and says what is left and
// when to try again. A denied request uses nothing. The error is an Error with
// CodeInvalidKey, or CodeOverloaded if LimitMemory is full of keys whose limits
// are in use, so that no key is forgotten into a fresh allowance.
func (l *KeyedLimit) Take(key string, n uint64) (Verdict, error) { return l.inner().Take(key, n) }

// Peek says what Take would decide, and takes nothing. It needs no memory.
func (l *KeyedLimit) Peek(key string, n uint64) (Verdict, error) { return l.inner().Peek(key, n) }

// Wait returns when a request of the key was admitted: it asks, and asks again when the limit
// would let it pass. Calls of one key are not in order, and one may wait longer than later
// ones. It fails at once if ctx would end before, and has taken nothing when it fails.
func (l *KeyedLimit) Wait(ctx context.Context, key string) error { return l.inner().WaitN(ctx, key, 1) }

// WaitN is Wait for n requests at once. More than the burst is an Error with
// CodeInvalidCount; others are as in Take.
func (l *KeyedLimit) WaitN(ctx context.Context, key string, n uint64) error {
	return l.inner().WaitN(ctx, key, n)
}

// Refund gives back up to n admissions that the key took, all at one time, and returns
// how many more are free because of it: fewer than n where some have left the window, or the
// bucket has filled since. taken is by the time of day; the zero Time stands for the
// newest admissions.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	return l.inner().Refund(key, n, taken)
}

// Reset forgets what the key has used of all limits of the name: it has its whole burst
// again. It reports whether there was something.
func (l *KeyedLimit) Reset(key string) (was bool, err error) { return l.inner().Reset(key) }

// Reservation describes admissions for what a request may need, to be settled once it is known
// what it did need.
type Reservation struct {
	ID       string    // 1 to MaxReservationID bytes, another for each
	Until    time.Time // required: it can be settled until then, at most MaxReservation from now
	GiveBack bool      // what is not settled until then is given back; else it stays used
	Content  uint64    // identifies what is asked for, if the ID may come again: another content is refused. 0: not checked
}

// Reserve is Take of n admissions of which Settle says later how many were used. The same ID
// again, for the same key, takes nothing more; with another Content or n it is CodeKeyReused.
func (l *KeyedLimit) Reserve(key string, n uint64, r Reservation) (Verdict, error) {
	return l.inner().Reserve(key, n, engine.Reservation(r))
}

// Settle says how many of a reservation's admissions were used: the rest is given back, as
// Refund does. With debt, use beyond the reservation always counts; without, only if the limit
// has all of it left. counted is how many count as used; settling again returns the first
// answer. known is false where there is no such reservation, or its time is over.
func (l *KeyedLimit) Settle(key, id string, used uint64, debt bool) (counted uint64, known bool, err error) {
	done, err := l.inner().Settle(key, id, used, debt)
	return done.Used, done.Known, err
}

// Keys returns the keys that have used most of the limit, as a share of their
// burst, the fullest first: a key at 1 is denied now. Keys that have used nothing
// are left out.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse { return l.inner().Keys(most) }
