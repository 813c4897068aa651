package leased

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/limit/grant"
)

// shards keep callers of different keys apart.
const shards = 64

// maxEntries bounds the keys of a shard. Those that it has no room for are decided by the holder.
const maxEntries = 4096

type shard struct {
	mu      sync.Mutex // guards all below, the entries too
	keys    map[entryKey]*entry
	lent    map[*entry]struct{} // of keys: those that may have something to use, or to report
	sweepAt int                 // keys at which the idle ones are forgotten
	_       [64]byte
}

// entryKey is one key of one limit, by its record: another limit of that name is lent anew.
type entryKey struct{ record, key string }

// entry is what this node has of a key.
type entry struct {
	*grant.Credit
	terms   grant.Terms
	limit   weir.Limit
	key     entryKey
	wall    int64         // Unix ns: what the node has is over by the time of day, too
	waiting uint64        // admissions that requests wait for, while one of them asks
	busy    chan struct{} // closed once that has its answer; nil: nobody asks
}

func (l *Leased) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%shards]
}

// entry finds or makes a key's entry; nil if there is no room. The caller holds sh.mu.
func (l *Leased) entry(sh *shard, c *weir.Check, now int64) *entry {
	key := entryKey{limits.Record(c.Limit), c.Key}
	if e := sh.keys[key]; e != nil {
		return e
	}
	if len(sh.keys) >= max(64, sh.sweepAt) {
		sh.sweep(now)
	}
	if len(sh.keys) >= maxEntries {
		return nil
	}
	of := c.Limit.Limit()
	e := &entry{Credit: grant.NewCredit(l.number.Add(1)), terms: grant.TermsOf(of), limit: of, key: key}
	sh.keys[key] = e
	return e
}

// check ends what the node has if the time of day says so. The monotonic clock of a machine that is suspended
// stands still.
func (e *entry) check(now int64) {
	if e.wall != 0 && time.Now().UnixNano() >= e.wall {
		e.Stop(now)
		e.wall = 0
	}
}

// sweep forgets entries of which nothing matters. The caller holds sh.mu.
func (sh *shard) sweep(now int64) {
	for key, e := range sh.keys {
		if e.busy == nil && e.Idle(now, e.terms) {
			delete(sh.keys, key)
			delete(sh.lent, e)
		}
	}
	sh.sweepAt = max(64, 2*len(sh.keys))
}

// outcome of a check at this node.
type outcome uint8

const (
	undecided outcome = iota
	admitted
	denied
)

// takeHere takes within what the node was lent.
func (l *Leased) takeHere(c *weir.Check, v *weir.Verdict, now int64) outcome {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[entryKey{limits.Record(c.Limit), c.Key}]
	if e == nil {
		return undecided
	}
	e.check(now)
	switch e.Take(now, e.terms, c.N) {
	case grant.Admitted:
		e.Note(now, e.terms, c.N)
		e.verdict(v, now, c.N, true)
		return admitted
	case grant.Denied:
		e.Note(now, e.terms, c.N)
		if e.Said.Out+e.Said.Free >= c.N {
			l.stats.short.Add(1)
		}
		e.verdict(v, now, c.N, false)
		return denied
	}
	return undecided
}

// peekHere says what is known here of a key, if anything is.
func (l *Leased) peekHere(c *weir.Check, v *weir.Verdict, now int64) bool {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[entryKey{limits.Record(c.Limit), c.Key}]
	if e == nil || e.Heard == 0 {
		return false
	}
	e.verdict(v, now, c.N, e.Left(now) >= c.N || e.Paused(now, c.N) == 0)
	return true
}

// undo gives back what takeHere took for a request that is denied, or decided otherwise.
func (l *Leased) undo(asked []weir.Check, verdicts []weir.Verdict) {
	for i := range asked {
		if c := &asked[i]; verdicts[i].Allowed && c.N > 0 {
			l.undoOne(c)
		}
	}
}

func (l *Leased) undoOne(c *weir.Check) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.keys[entryKey{limits.Record(c.Limit), c.Key}]; e != nil {
		e.Undo(c.N)
	}
}

// verdict is what the node can say of the limit: what it has, and what the holder had when it said so.
func (e *entry) verdict(v *weir.Verdict, now int64, n uint64, allowed bool) {
	passed := time.Duration(now - e.Heard)
	*v = weir.Verdict{Allowed: allowed, Remaining: min(e.limit.Burst, e.Left(now)+e.Said.Free)}
	if e.limit.Algorithm == limit.Window && allowed {
		v.Reset = e.terms.Interval
	} else {
		v.Reset = max(e.Said.Reset-passed, time.Millisecond)
	}
	if !allowed {
		v.Remaining = min(v.Remaining, n-1)
		v.RetryAfter = max(e.Paused(now, n), e.Said.Wait-passed, time.Millisecond)
		v.Reset = max(v.Reset, v.RetryAfter)
	}
}
