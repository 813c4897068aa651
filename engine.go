package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Engine counts hits per key, within a memory budget. It is safe for many
// goroutines, and must be closed.
type Engine engine.Engine

// New returns an Engine, or an Error with CodeInvalidConfig that names the
// field. It starts one goroutine, which Close ends.
func New(cfg Config) (*Engine, error) {
	e, err := engine.New(engine.Config(cfg))
	return (*Engine)(e), err
}

func (e *Engine) inner() *engine.Engine { return (*engine.Engine)(e) }

// Close ends the goroutine of New. Later hits are refused with CodeClosed; reads go on.
func (e *Engine) Close() error { return e.inner().Close() }

// Config is what the engine was made with, defaults filled in.
func (e *Engine) Config() Config { return Config(e.inner().Config()) }

// Now is the engine's clock, in whole seconds: the time of day, or with
// EventClock the second of the newest hit, the zero Time before the first.
func (e *Engine) Now() time.Time { return e.inner().Now() }

// Stats returns the figures; each is exact, but they are not taken at one instant.
func (e *Engine) Stats() Stats { return Stats(e.inner().Stats().Figures) }

// Hit counts one hit of the key now. With EventClock now is the newest hit, or
// the wall clock before the first.
func (e *Engine) Hit(key string) error { return e.inner().HitN(key, 1) }

// HitN counts n >= 1 hits of the key now.
func (e *Engine) HitN(key string, n uint64) error { return e.inner().HitN(key, n) }

// HitAt counts n >= 1 hits of the key at any time, in any order of times.
// TooLate is an outcome, not an error; a time more than MaxAhead after the wall
// clock is an error, CodeTooFarAhead, and changes nothing. HitAt does not keep
// the key's bytes.
//
// Cost: a look-up and two atomic operations for a hit in the key's newest
// second; else a lock on the key's partition and amortised O(1).
func (e *Engine) HitAt(at time.Time, key string, n uint64) (Outcome, error) {
	return e.inner().HitAt(at, key, n)
}

// Count answers how many hits the key has in the last w, up to Now. A key that
// was never hit has none. AllKeys counts all hits, also of evicted and deleted keys.
//
// Where keys were evicted, Upper includes what a key may have had before. Where
// the window reaches back beyond the retention, no upper bound is known: older
// hits are refused, and those that were taken may have left.
func (e *Engine) Count(key string, w time.Duration) (Count, error) { return e.inner().Count(key, w) }

// CountAt answers how many hits the key has in (at-w, at]; at may lie in the
// past. If at has a fraction of a second, the two seconds that the window cuts
// are in doubt, and the bounds say so.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a
// sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.inner().CountAt(at, key, w)
}

// Rate is Count per second of w.
func (e *Engine) Rate(key string, w time.Duration) (Rate, error) { return e.inner().Rate(key, w) }

// RateAt is CountAt per second of w.
func (e *Engine) RateAt(at time.Time, key string, w time.Duration) (Rate, error) {
	return e.inner().RateAt(at, key, w)
}

// Series answers with the counts of consecutive windows of length step, the
// first ending at from+step and the last at or before to: the bars of a chart.
// from is cut to a whole second. Points within the key's newest 511 s are exact;
// older ones are uncertain by up to 1 % of their age at both ends, and their bounds say so.
//
// At most MaxPoints, at least one; each costs what a Count does.
func (e *Engine) Series(key string, from, to time.Time, step time.Duration) ([]Point, error) {
	return e.inner().Series(key, from, to, step)
}

// Top answers with the n keys, 1 to MaxList, that have most hits in (at-w, at]
// by estimate, equal ones in order of their names. With a prefix, only keys that
// begin with it. Keys without hits in the window and AllKeys are left out.
// at is cut to a whole second.
//
// Cost: O(keys), one short lock for each key with the prefix, so that hits are
// not held up.
func (e *Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	return e.inner().Top(at, w, n, prefix)
}

// Keys answers with the first limit keys, 1 to MaxList, that begin with prefix
// and come after the key after, in byte order. To page, pass the last key of the
// answer before. O(keys); takes no lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.inner().Keys(prefix, after, limit)
}

// Has reports whether a key is in memory: it was hit, and was neither evicted nor deleted, nor
// is its retention over. O(1), takes no lock.
func (e *Engine) Has(key string) bool { return e.inner().Has(key) }

// Delete forgets the key and its hits, and reports whether it was there. AllKeys
// still counts them. A hit that comes later starts the key again.
func (e *Engine) Delete(key string) (bool, error) { return e.inner().Delete(key) }

// Limit returns the engine's limit of a name, 1 to MaxLimitNameBytes letters,
// digits and any of ._/- long, for the keys that it is asked for. What a key has
// used is kept by name: a limit made again under its name, with the same numbers or
// others, grants no fresh allowance. Two that are in use at once under one name
// count each other's admissions.
func (e *Engine) Limit(name string, l Limit) (*KeyedLimit, error) {
	made, err := e.inner().Limit(name, l)
	return (*KeyedLimit)(made), err
}

// Check is one limit that a request must pass.
type Check struct {
	Limit  *KeyedLimit
	Key    string
	N      uint64 // admissions that the request takes; 0 asks only
	Shadow bool   // its verdict denies nothing
}

// TakeAll admits a request under several limits of the engine, all or none: if one
// that is not Shadow denies it, nothing is taken of any. verdicts, of the length
// of checks, gets what each limit says by itself. A check of a key and a limit's
// name that came before asks for both together.
//
// The error is an Error with CodeInvalidKey, CodeInvalidCount for more than
// MaxChecks, CodeInvalidLimit for none or another engine's, or CodeOverloaded (see
// KeyedLimit.Take); nothing is taken then.
// Cost: that of Take for each; it holds the locks of all keys' partitions.
func (e *Engine) TakeAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	return e.decide(checks, verdicts, true)
}

// PeekAll says what TakeAll would decide, and takes nothing.
func (e *Engine) PeekAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	return e.decide(checks, verdicts, false)
}

func (e *Engine) decide(checks []Check, verdicts []Verdict, take bool) (allowed bool, err error) {
	var few [8]engine.Check // on the stack
	list := few[:0]
	for _, c := range checks {
		list = append(list, engine.Check{Limit: (*engine.KeyedLimit)(c.Limit), Key: c.Key, N: c.N, Shadow: c.Shadow})
	}
	allowed, _, err = e.inner().DecideAll(list, nil, verdicts, take)
	return allowed, err
}
