package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Hit counts one hit of the key now. With EventClock now is the newest hit, or the wall clock before the first.
func (e *Engine) Hit(key string) error { return e.HitN(key, 1) }

// HitN counts n >= 1 hits of the key now.
func (e *Engine) HitN(key string, n uint64) error {
	if err := e.check(key, n); err != nil {
		return err
	}
	second := e.clock.Now()
	if second < 0 { // an event clock before the first hit, or a clock that is not set
		second = e.clock.Wall.Second()
	}
	if err := checkHit(second, n); err != nil {
		return err
	}
	e.clock.Advance(second)
	if e.hit(second, e.keys.Find(key), n) == TooLate {
		return &Error{Code: api.CodeTooLate, Message: "the clock is more than the retention behind the hits counted so far: check it"}
	}
	return nil
}

// HitAt counts n >= 1 hits of the key at any time, in any order of times. TooLate and ForHistory are outcomes, not
// errors; a time more than MaxAhead after the wall clock is an error, api.CodeTooFarAhead, and changes nothing. HitAt
// does not keep the key's bytes.
//
// Cost: a look-up and two atomic operations for a hit in the key's newest
// second; else a lock on the key's partition and amortised O(1).
func (e *Engine) HitAt(at time.Time, key string, n uint64) (Outcome, error) {
	return e.HitExpected(at, e.keys.Find(key), n)
}

// Expected is a key whose hits come next: Keyspace.Expect makes it, for HitExpected of the same engine.
type Expected = keyspace.Expected

// HitExpected is HitAt of a key that Expect has looked for, however long ago.
func (e *Engine) HitExpected(at time.Time, key Expected, n uint64) (Outcome, error) {
	if err := e.check(key.Key(), n); err != nil {
		return Refused, err
	}
	second := at.Unix()
	if err := checkHit(second, n); err != nil {
		return Refused, err
	}
	switch outcome, after := e.clock.Judge(second); outcome {
	case Refused:
		e.refused.tooFarAhead.Add(n)
		return Refused, tooFarAhead(after, e.clock.Ahead)
	case TooLate:
		return e.hitPast(second, key.Key(), n), nil
	}
	return e.hit(second, key, n), nil
}

// HitSampled is HitAt of n hits of which nobody saw added: a sampled line counts for them. Counts of the key, and of AllKeys, have
// them in the estimate, not in the lower bound, and no upper bound. A key has at most MaxKeyBytes less SampledPrefix.
//
// Cost: three times HitAt, and a copy of the key.
func (e *Engine) HitSampled(at time.Time, key string, n, added uint64) (Outcome, error) {
	if err := e.check(key, n); err != nil {
		return Refused, err
	}
	if most := MaxKeyBytes - len(SampledPrefix); len(key) > most {
		return Refused, &Error{Code: api.CodeInvalidKey, Field: "key", Message: fmt.Sprintf("key of %d bytes: of sampled hits it must have 1 to %d", len(key), most)}
	}
	second := at.Unix()
	if err := checkHit(second, n); err != nil {
		return Refused, err
	}
	switch outcome, _ := e.clock.Judge(second); outcome { // companions count first, so that no count is without its doubt
	case Refused:
	case TooLate:
		if keeps := e.past.Load(); keeps != nil && (*keeps)(key, second) {
			e.keys.HitPastSampled(second, key, added)
		}
	default:
		e.keys.HitSampled(second, key, added)
	}
	return e.HitAt(at, key, n)
}

// hitPast takes a hit that is older than the retention for history, where that keeps it.
func (e *Engine) hitPast(second int64, key string, n uint64) Outcome {
	if keeps := e.past.Load(); keeps != nil && (*keeps)(key, second) {
		e.keys.HitPast(second, key, n)
		e.refused.forHistory.Add(n)
		return ForHistory
	}
	e.refused.tooLate.Add(n)
	return TooLate
}

func (e *Engine) check(key string, n uint64) error {
	switch {
	case n == 0:
		return checkHit(0, n)
	case e.closed.Load():
		return &Error{Code: api.CodeClosed, Message: "the engine is closed"}
	case e.keys.Crowded():
		return e.crowded()
	case key == AllKeys:
		return &Error{Code: api.CodeReservedKey, Field: "key", Message: "key * is reserved: it counts all hits by itself"}
	}
	return keyspace.CheckKey(key)
}

// crowded is why hits are refused while too much waits for the journal.
func (e *Engine) crowded() error {
	why := cmp.Or(e.keys.WhyCrowded(), "the journal is behind and its buffer is full: retry in a second; if it lasts, look at the disk")
	return &Error{Code: api.CodeOverloaded, Message: why}
}

func tooFarAhead(by, most int64) error {
	return &Error{Code: api.CodeTooFarAhead, Field: "at", Message: fmt.Sprintf(
		"at is %d s ahead of the clock, at most %d s are allowed: check the sender's clock and the unit of at", by, most)}
}

// hit counts a hit that was checked.
func (e *Engine) hit(second int64, key Expected, n uint64) Outcome {
	// The total comes first. Its newest second is the newest of all keys: a hit that is not too late for it is not too
	// late for the key.
	if !keyspace.Separate(key.Key()) && e.total.hit(second, n) == TooLate {
		e.refused.tooLate.Add(n)
		return TooLate
	}
	outcome := e.keys.Hit(second, key, n)
	switch outcome {
	case Late:
		e.refused.late.Add(n)
	case TooLate: // for the key alone: it is counted apart
		e.refused.tooLate.Add(n)
	}
	return outcome
}

// MaxOnceKeyBytes is the longest idempotency key, in bytes.
const MaxOnceKeyBytes = keyspace.MaxReceiptKey

// OnceFrom applies a request that may be sent again under the same key, 1 to MaxOnceKeyBytes long, and returns its
// answer. Within keyspace.ReceiptSeconds a repeat with the same fingerprint of its content applies nothing and gets the
// first answer. With a journal, this holds across a restart too. A repeat with another fingerprint is refused with
// api.CodeKeyReused. A repeat that comes while the first is being applied waits for it. client is one of many, of any
// name: each may take three quarters of Config.OnceMemory at most.
//
// apply must not wait for another goroutine, because cuts wait for apply. A nil answer is not remembered: the request
// counted nothing and may be sent again.
//
// If Config.OnceMemory is full, a new key is refused with api.CodeOnceFull, and nothing is applied.
func (e *Engine) OnceFrom(ctx context.Context, client, key string, fingerprint uint64, apply func() []byte) (answer []byte, repeated bool, err error) {
	return e.receipts.Once(ctx, client, key, fingerprint, func(*replication.RequestRecorder) []byte { return apply() })
}
