package shadow

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/limit"
)

// ledger keeps the records within a budget. If they do not fit, it drops what says the least, until a quarter of the budget is free:
//
//  1. Records of keys that were never denied and have not asked lately. If such a key comes again, the requests before are missing.
//  2. The records of all keys that were never denied, and the demand of the others before their newest interval. What another limit
//     would have denied is then not known.
//  3. The records with the fewest denials. These keys may be missing from the list of the most denied, and count twice as denied keys
//     if they come again.
type ledger struct {
	budget int64 // bytes
	bytes  int64
}

// find sets the record of c: a new one if the key has none.
func (l *ledger) find(c *check) {
	if c.record != nil && !c.record.gone {
		return
	}
	a := c.rule.account
	if c.record = a.records[c.key]; c.record != nil {
		return
	}
	c.record = &record{key: c.key, rule: c.rule, late: a.dropped}
	a.records[c.key] = c.record
	a.DistinctKeys++
	l.bytes += c.record.bytes()
}

// keep drops what says the least if the records exceed the budget, at a time in Unix s. It is called between requests.
func (l *ledger) keep(accounts []*account, now int64) {
	if l.bytes <= l.budget {
		return
	}
	for _, make := range []func([]*account, int64){l.dropIdle, l.cut, l.thin} {
		if make(accounts, now); l.bytes <= l.budget/4*3 {
			return
		}
	}
}

// all are the records of all accounts.
func all(accounts []*account) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, a := range accounts {
			for _, r := range a.records {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (l *ledger) dropIdle(accounts []*account, now int64) {
	for r := range all(accounts) {
		if r.denied == 0 && !r.whole && r.at < now-r.rule.memory {
			l.drop(r)
		}
	}
}

func (l *ledger) cut(accounts []*account, _ int64) {
	for r := range all(accounts) {
		r.rule.account.cut = true // also the demand that would have been denied later
		if r.denied == 0 {
			l.drop(r)
			continue
		}
		l.bytes -= int64(cap(r.series))
		r.demand.drop()
		l.bytes += int64(cap(r.series))
	}
}

func (l *ledger) drop(r *record) {
	a := r.rule.account
	delete(a.records, r.key)
	l.bytes -= r.bytes()
	r.gone = true
	a.dropped = true
}

// thin drops the half of all records that has the fewest denials.
func (l *ledger) thin(accounts []*account, _ int64) {
	sorted := slices.SortedFunc(all(accounts), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.denied, b.denied), cmp.Compare(a.key, b.key))
	})
	for _, r := range sorted[:(len(sorted)+1)/2] {
		r.rule.account.thinned = true
		l.drop(r)
	}
}

// parts are reused: there are never more of them than chunks of the log are under way.
var parts = sync.Pool{New: func() any { return &part{} }}

func giveBack(p *part) {
	*p = part{asked: p.asked[:0], routes: p.routes[:0], questions: p.questions[:0]}
	parts.Put(p)
}

// needShares are the shares of requests that the reported limits deny at most.
var needShares = []float64{0, 0.01}

// need finds the smallest limit that would have denied at most a share of the requests, had it been alone. It has the policy's
// interval and ratio of n to burst, and is not below the policy's own limit. Keys with an override are left out.
//
// Of two limits with one interval the larger denies no more, so need bisects. Each step decides the whole demand of the keys that
// ever asked for more than the limit; no other key is denied.
func (a *account) need(ctx context.Context, share float64) *Need {
	if a.cut || a.plain == 0 {
		return nil
	}
	w := whatIf{account: a, most: uint64(share * float64(a.plain))}
	for _, r := range a.records {
		if r.whole && r.rule == a.rule {
			w.records = append(w.records, r)
		}
	}
	l := a.rule.limit
	unit := gcd(l.N, l.Burst)
	w.n, w.burst = l.N/unit, l.Burst/unit
	low, high := unit, unit
	for !w.suffices(ctx, high) {
		if high > w.largest() {
			return nil // no limit that can be written
		}
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; w.suffices(ctx, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return &Need{Share: share, N: w.n * high, Burst: w.burst * high, Denied: w.denied(ctx, high), OrLess: high == unit}
}

// whatIf decides the demand of a limit's keys under other limits: n and burst, times a factor.
type whatIf struct {
	account  *account
	records  []*record
	n, burst uint64
	most     uint64 // denials
}

// largest is a factor beyond which no limit is possible: MaxBurst is also more than the admissions of the longest period.
func (w *whatIf) largest() uint64 { return limit.MaxBurst / max(w.n, w.burst) }

func (w *whatIf) suffices(ctx context.Context, factor uint64) bool {
	return w.denied(ctx, factor) <= w.most
}

// denied is how many requests a limit denies; it stops counting beyond most. A limit that can't be written denies all.
func (w *whatIf) denied(ctx context.Context, factor uint64) (denied uint64) {
	l := w.account.rule.limit
	l.N, l.Burst = w.n*factor, w.burst*factor
	plan, err := limit.New(l)
	if err != nil {
		return w.account.plain
	}
	for _, r := range w.records {
		if ctx.Err() != nil {
			return denied
		}
		if r.peak > l.Burst/2 { // else two intervals, all that a limit remembers, never have more than the burst
			denied += deniedOf(plan, r, w.most-denied)
		}
		if denied > w.most {
			break
		}
	}
	return denied
}

// deniedOf counts the denials of one key, until there are more than most.
func deniedOf(plan *limit.Plan, r *record, most uint64) (denied uint64) {
	var s limit.State
	r.each(func(at int64, n uint64) bool {
		denied += n - takeOneByOne(plan, &s, at*int64(time.Second), n)
		return denied <= most
	})
	return denied
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// demand is when one key asked, whether it was let through or not: how many requests in which second, two or three bytes for each.
//
// While the key asks for no more than the burst in any two intervals, its limit denies nothing, whatever the algorithm, and no older
// request matters. A window looks back one interval, and a fixed one less. A bucket fills twice in two intervals, so it has been
// full. Therefore only two intervals are kept.
//
// Once the key asks for more, everything is kept. Larger limits of the same interval denied nothing until then either, so this
// series has exactly what they would have denied.
type demand struct {
	at      int64  // Unix s of the newest entry, which is not in series yet
	n       uint64 // of the newest entry; 0 before the first
	encoded int64  // Unix s of the newest entry in series; 0 before the first
	series  []byte // varints: s since the entry before, n
	recent  cursor // begins an interval before at
	kept    cursor // begins what is kept

	peak   uint64 // the most requests in an interval
	peakAt int64  // the end of the first one that had as many, Unix s
	whole  bool   // the key asked for more than its limit: kept does not move
}

// cursor is a place in a series, and how much there is from it to the newest entry.
type cursor struct {
	off int
	at  int64 // Unix s of the entry before off; 0 before the first
	sum uint64
}

// pass moves the cursor to the first entry that is not before a time.
func (c *cursor) pass(series []byte, from int64) {
	for c.off < len(series) {
		at, n, size := entryAt(series[c.off:], c.at)
		if at >= from {
			return
		}
		c.off, c.at, c.sum = c.off+size, at, c.sum-n
	}
}

func entryAt(b []byte, before int64) (at int64, n uint64, size int) {
	delta, size := binary.Uvarint(b)
	n, more := binary.Uvarint(b[size:])
	return before + int64(delta), n, size + more
}

// reach is which seconds matter to a limit.
type reach struct {
	recent int64  // an interval that ends in second t begins with t-recent
	memory int64  // two intervals that end in second t begin with t-memory
	most   uint64 // the burst
}

// add notes n requests at a time that is not before the newest.
func (d *demand) add(at int64, n uint64, r *reach) {
	if d.n > 0 && at != d.at {
		d.encode()
		d.recent.pass(d.series, at-r.recent)
		d.forget(at, r)
		d.n = 0
	}
	d.at = at
	d.n += n
	d.recent.sum += n
	d.kept.sum += n
	if d.recent.sum > d.peak {
		d.peak, d.peakAt = d.recent.sum, at
	}
	d.whole = d.whole || d.kept.sum > r.most
}

func (d *demand) encode() {
	d.series = binary.AppendUvarint(d.series, uint64(d.at-d.encoded))
	d.series = binary.AppendUvarint(d.series, d.n)
	d.encoded = d.at
}

// forget drops what no limit looks back to at a time, while nothing else is needed.
func (d *demand) forget(at int64, r *reach) {
	if d.whole {
		return
	}
	d.kept.pass(d.series, at-r.memory)
	if d.kept.off > len(d.series)/2 {
		d.compact()
	}
}

func (d *demand) compact() {
	d.series = d.series[:copy(d.series, d.series[d.kept.off:])]
	d.recent.off -= d.kept.off
	d.kept.off = 0
}

// drop forgets all but the newest interval: then it is not known what another limit would have denied.
func (d *demand) drop() {
	d.whole = false
	d.kept = d.recent
	d.series = append([]byte(nil), d.series[d.kept.off:]...)
	d.recent.off, d.kept.off = 0, 0
}

// each calls f with what is kept, in order of time, until f returns false.
func (d *demand) each(f func(at int64, n uint64) bool) {
	for off, before := d.kept.off, d.kept.at; off < len(d.series); {
		at, n, size := entryAt(d.series[off:], before)
		if !f(at, n) {
			return
		}
		off, before = off+size, at
	}
	if d.n > 0 {
		f(d.at, d.n)
	}
}

// takeOneByOne asks for n admissions at one time, one after the other, and returns how many a key gets.
func takeOneByOne(plan *limit.Plan, s *limit.State, now int64, n uint64) (passed uint64) {
	if n == 1 {
		if plan.Allow(s, now, 1) {
			return 1
		}
		return 0
	}
	passed = min(n, plan.Peek(s, now, 0).Remaining)
	plan.Allow(s, now, passed)
	return passed
}
