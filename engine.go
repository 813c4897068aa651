package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Engine counts hits per key, within a memory budget, for many goroutines. Close it after use.
type Engine engine.Engine

// New returns an Engine, or an Error with api.CodeInvalidConfig that names the field. It starts
// one goroutine, which Close ends.
func New(cfg Config) (*Engine, error) {
	e, err := engine.New(cfg)
	return (*Engine)(e), err
}

func (e *Engine) inner() *engine.Engine { return (*engine.Engine)(e) }

// Close ends the goroutine of New. Later hits fail with api.CodeClosed; reads still work.
func (e *Engine) Close() error { return e.inner().Close() }

// Config returns the configuration, with defaults filled in.
func (e *Engine) Config() Config { return e.inner().Config() }

// Now returns the engine's clock in whole seconds: the time of day, or with EventClock the second
// of the newest hit. Before the first hit that is the zero Time.
func (e *Engine) Now() time.Time { return e.inner().Now() }

// Stats returns the figures. Each is exact, but they are not taken at one instant.
func (e *Engine) Stats() Stats { return e.inner().Stats().Figures }

// Hit counts one hit of the key now. With EventClock, now is the newest hit, or the time of day before the first.
func (e *Engine) Hit(key string) error { return e.inner().HitN(key, 1) }

// HitN counts n >= 1 hits of the key now.
func (e *Engine) HitN(key string, n uint64) error { return e.inner().HitN(key, n) }

// HitAt counts n >= 1 hits of the key at any time, in any order of times. TooLate is an outcome,
// not an error. A time more than MaxAhead after the wall clock is an error, api.CodeTooFarAhead,
// and changes nothing. HitAt does not keep the key's bytes.
//
// Cost: a look-up and two atomic operations for a hit in the key's newest second; otherwise a
// lock on the key's partition and amortized O(1).
func (e *Engine) HitAt(at time.Time, key string, n uint64) (Outcome, error) {
	return e.inner().HitAt(at, key, n)
}

// Count returns how many hits the key has in the last w, up to Now. AllKeys counts all hits,
// including evicted and deleted keys. After an eviction, Upper includes what the key may have had
// before. A window that reaches back beyond the retention has no upper bound.
func (e *Engine) Count(key string, w time.Duration) (Count, error) { return e.inner().Count(key, w) }

// CountAt returns how many hits the key has in (at-w, at]; at may lie in the past. If at has a
// fraction of a second, the bounds include both seconds that the window cuts.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.inner().CountAt(at, key, w)
}

// Rate is Count per second of w.
func (e *Engine) Rate(key string, w time.Duration) (Rate, error) { return e.inner().Rate(key, w) }

// Series returns the counts of 1 to MaxPoints consecutive windows of length step: the first one ends
// at from+step, the last one at or before to. from is cut to a whole second. Points within the
// key's newest 511 s are exact. In older ones up to 1 % of their age is in doubt at both ends.
func (e *Engine) Series(key string, from, to time.Time, step time.Duration) ([]Point, error) {
	return e.inner().Series(key, from, to, step)
}

// Top returns the n keys, 1 to MaxList, with the most hits in (at-w, at] by estimate, and with the
// prefix; equal ones by name. It leaves out AllKeys and keys without hits. at is cut to a whole
// second. Cost: O(keys), and a short lock for each key with the prefix.
func (e *Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	return e.inner().Top(at, w, n, prefix)
}

// Keys returns the first limit keys, 1 to MaxList, that begin with prefix and come after the key
// after, in byte order. To page, pass the last key of the previous answer. O(keys), without a lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.inner().Keys(prefix, after, limit)
}

// Delete forgets the key and its hits, and reports whether it was there. AllKeys still counts them.
func (e *Engine) Delete(key string) (bool, error) { return e.inner().Delete(key) }

// Limit returns the engine's limit of a name: 1 to 64 letters, digits and any of ._/-. The engine
// keeps by name what a key has used, so a new limit of the same name grants no fresh allowance.
// Two limits that are in use at once under one name count each other's admissions.
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

// TakeAll admits a request under several limits of the engine, all or none: a denial by one that
// is not Shadow takes nothing from any. The verdicts, as many as checks, get what each limit
// says by itself. Two checks of one key and one limit's name ask for both numbers together.
//
// The error is an Error with api.CodeInvalidKey, CodeInvalidCount for more than MaxChecks,
// CodeInvalidLimit for none or another engine's, or CodeOverloaded; nothing is taken then. The
// cost is one Take for each check; the locks of all keys' partitions are held.
func (e *Engine) TakeAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	var few [8]engine.Check // on the stack
	list := few[:0]
	for _, c := range checks {
		list = append(list, engine.Check{Limit: (*engine.KeyedLimit)(c.Limit), Key: c.Key, N: c.N, Shadow: c.Shadow})
	}
	allowed, _, err = e.inner().Limits().DecideAll(list, nil, verdicts, true)
	return allowed, err
}
