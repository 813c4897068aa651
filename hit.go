package weir

import (
	"fmt"
	"time"
)

// Hit counts one hit of the key now. With EventClock now is the newest hit, or
// the wall clock before the first.
func (e *Engine) Hit(key string) error { return e.HitN(key, 1) }

// HitN counts n >= 1 hits of the key now.
func (e *Engine) HitN(key string, n uint64) error {
	if err := e.check(key, n); err != nil {
		return err
	}
	second := e.clock.now()
	if second < 0 { // an event clock before the first hit, or a clock that is not set
		second = e.clock.wall.second()
	}
	if err := checkHit(second, n); err != nil {
		return err
	}
	e.clock.advance(second)
	if e.hit(second, key, n) == TooLate {
		return &Error{CodeTooLate, "", "the clock is more than the retention behind the hits counted so far: check it"}
	}
	return nil
}

// HitAt counts n >= 1 hits of the key at any time, in any order of times.
// TooLate is an outcome, not an error; a time more than MaxAhead after the wall
// clock is an error, CodeTooFarAhead, and changes nothing. HitAt does not keep
// the key's bytes.
//
// Cost: a look-up and two atomic operations for a hit in the key's newest
// second; else a lock on the key's partition and amortised O(1).
func (e *Engine) HitAt(at time.Time, key string, n uint64) (Outcome, error) {
	if err := e.check(key, n); err != nil {
		return Refused, err
	}
	second := at.Unix()
	if err := checkHit(second, n); err != nil {
		return Refused, err
	}
	outcome, err := e.clock.judge(second)
	switch {
	case err != nil:
		e.refused.tooFarAhead.Add(n)
		return Refused, err
	case outcome == TooLate:
		e.refused.tooLate.Add(n)
		return TooLate, nil
	}
	return e.hit(second, key, n), nil
}

func (e *Engine) check(key string, n uint64) error {
	switch {
	case n == 0:
		return checkHit(0, n)
	case e.closed.Load():
		return &Error{CodeClosed, "", "the engine is closed"}
	case e.waiting.tooMuch(e.cfg.MaxWaiting):
		return e.waiting.refusal()
	case key == AllKeys:
		return &Error{CodeReservedKey, "key", "key * is reserved: it counts all hits by itself"}
	}
	return checkKey(key)
}

func checkKey(key string) error {
	if len(key) < 1 || len(key) > MaxKeyBytes {
		return &Error{CodeInvalidKey, "key", fmt.Sprintf("key of %d bytes: must have 1 to %d", len(key), MaxKeyBytes)}
	}
	return nil
}

// hit counts a hit that was checked.
func (e *Engine) hit(second int64, key string, n uint64) Outcome {
	// The total first: its newest second is that of all keys, so what is not
	// too late for it is not too late for the key.
	if !apart(key) && e.total.hit(second, n) == TooLate {
		e.refused.tooLate.Add(n)
		return TooLate
	}
	outcome := e.hitEntry(e.partition(key), e.hash(key), second, key, n)
	switch outcome {
	case Late:
		e.refused.late.Add(n)
	case TooLate: // for the key alone: it is counted apart
		e.refused.tooLate.Add(n)
	}
	return outcome
}

func (e *Engine) hitEntry(p *partition, hash uint64, second int64, key string, n uint64) Outcome {
	for lost := 0; ; {
		en := p.table.Load().find(hash, key)
		if en == nil {
			if outcome, ok := e.hitNew(p, hash, second, key, n); ok {
				return outcome
			}
			continue
		}
		word := en.cell.word.Load()
		if fits(word, second, n) {
			if en.cell.word.CompareAndSwap(word, word+n) {
				return cellOutcome(word)
			}
			if lost++; lost == hotAfter {
				p.mu.Lock()
				e.heat(p, en)
				p.mu.Unlock()
			}
			continue
		}
		var mine *cell
		hot := e.hot.of(en, word)
		if hot != nil {
			mine = hot.mine()
			if outcome, ok := hot.add(&mine, second, n); ok {
				return outcome
			}
		}
		if outcome, ok := e.fold(p, en, hot, mine, second, n); ok {
			return outcome
		}
	}
}

// hitNew makes the entry of a new key, unless another goroutine just did.
func (e *Engine) hitNew(p *partition, hash uint64, second int64, key string, n uint64) (Outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table.Load().find(hash, key) != nil {
		return Refused, false
	}
	outcome := p.add(e, p.insert(e, hash, key), second, n)
	e.makeRoom(p)
	return outcome, true
}

// fold counts a hit at another second than the live cell's, or one that the cell
// can't hold, under the lock; was and mine are the hot key and the goroutine's
// cell, if the key was hot before. It fails if the entry has changed its kind, or
// left the table.
func (e *Engine) fold(p *partition, en *entry, was *hotKey, mine *cell, second int64, n uint64) (outcome Outcome, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word := en.cell.word.Load()
	switch hot := e.hot.of(en, word); {
	case word < cellSpecial:
		outcome = p.add(e, en, second, n)
	case hot != nil && hot == was:
		if outcome = hot.fold(mine, &en.window, second, n, p.settler(e, en)); outcome == TooLate {
			if limit := e.clock.limit(); e.newestOf(en) > limit { // the clock has run back
				p.setAside(e, en, limit)
				outcome = hot.fold(hot.mine(), &en.window, second, n, p.settler(e, en))
			}
		}
	default:
		return Refused, false
	}
	e.makeRoom(p)
	return outcome, true
}
