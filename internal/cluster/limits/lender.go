package limits

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// LeasedLender is the side of a Leased that lends: a strict.Lender.
type LeasedLender struct {
	of     *Leased
	cfg    LeasedConfig
	side   side.Lender
	groups [kv.Groups]group
	stats  *counters
	most   int // books of a group
}

// group is what this node has lent of the keys of one group, while it holds its lease.
type group struct {
	mu      sync.Mutex // guards all below, and is held while a question is decided
	token   uint64     // of the claim
	closed  bool       // nothing is granted: the group is handed over
	books   map[bookKey]*book
	sweepAt int   // books at which those are forgotten of which nothing is out
	sweptAt int64 // when that was last done, by the engine's clock
}

type bookKey struct{ limit, key string }

type book struct {
	grant.Book
	terms grant.Terms
	told  uint64 // to the journal: Own
}

// maxBooks bounds the keys of a group of which something is out, but for what earlier holders had out: of others
// nothing is lent, and nothing kept.
const maxBooks = 20_000

// sweepPause is between two sweeps of a group that has as many books as it may.
const sweepPause = time.Second

// Learn is of strict.Lender: what earlier holders had out is read from the engine, which has
// followed the journal.
func (l *LeasedLender) Learn(i int, token uint64) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.closed, g.books, g.sweepAt = token, false, map[bookKey]*book{}, 0
	inGroup := func(partition int) bool { return partition%kv.Groups == i }
	l.side.Outs(inGroup, func(o side.Out) {
		// Its terms come with the first question; until then nothing lapses but by Until.
		g.book(bookKey{o.Limit, o.Key}, grant.Terms{}).Recover(o.N, o.Until, o.Holder == l.cfg.Node)
	})
}

// Recall has nothing of a group granted any more, or again, and returns how much nodes still have.
func (l *LeasedLender) Recall(i int, recall bool) (granted uint64) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = recall
	for _, b := range g.books {
		granted += b.Granted()
	}
	return granted
}

// GiveBack is of Lender: owners of groups want back what they granted to this node.
func (l *LeasedLender) GiveBack(groups []int) {
	l.of.giveBack(func(group int) bool { return slices.Contains(groups, group) })
}

// book finds or makes a key's book. The caller holds g.mu.
func (g *group) book(key bookKey, terms grant.Terms) *book {
	b := g.books[key]
	if b == nil {
		b = &book{}
		g.books[key] = b
	}
	b.terms = terms
	return b
}

// bookFor is book for a question; where a group has as many as it may, one that is not kept: full. The caller
// holds g.mu.
func (g *group) bookFor(key bookKey, terms grant.Terms, most int) (b *book, full bool) {
	if g.books[key] == nil && len(g.books) >= most {
		return &book{terms: terms}, true
	}
	return g.book(key, terms), false
}

// sweep forgets the books of which nothing is out, once there are twice as many as were left the
// last time, or as many as there may be: then also those that only know of what was asked. The
// caller holds g.mu.
func (g *group) sweep(now int64, most int) {
	full := len(g.books) >= most && now-g.sweptAt >= int64(sweepPause)
	if len(g.books) < g.sweepAt && !full {
		return
	}
	for key, b := range g.books {
		if b.Idle(now, b.terms) || full && b.LentNothing() {
			delete(g.books, key)
		}
	}
	g.sweepAt, g.sweptAt = min(max(256, 2*len(g.books)), most), now
}

// Decide is of strict.Lender: what is out of a limit counts for strict ones of its name.
func (l *LeasedLender) Decide(i int, q Question) (a Answer, err error) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.Change.Kind != side.NoChange { // what is out stays so
		of := q.Checks[0]
		if kl, err := side.Of(l.cfg.Engine).LimitOfRecord(of.Limit); err == nil && g.books[bookKey{kl.Name(), of.Key}] != nil {
			defer l.of.holder.Changed(kl.Name(), of.Key)
		}
		return q.Decide(l.cfg.Engine)
	}
	asked := make([]weir.Check, len(q.Checks))
	beside := make([]uint64, len(q.Checks))
	now := l.side.Now()
	for i, c := range q.Checks {
		of, err := side.Of(l.cfg.Engine).LimitOfRecord(c.Limit)
		if err != nil {
			return a, err
		}
		asked[i] = weir.Check{Limit: of, Key: c.Key, N: c.N, Shadow: c.Shadow}
		if b := g.books[bookKey{of.Name(), c.Key}]; b != nil {
			beside[i] = b.Out(now, grant.TermsOf(of.Limit()))
		}
	}
	a.Verdicts = make([]weir.Verdict, len(asked))
	a.Allowed, err = l.side.DecideBeside(asked, beside, a.Verdicts, q.Take)
	return a, err
}

// Serve is of strict.Lender.
func (l *LeasedLender) Serve(i int, token uint64, asked []byte) (told []byte, commit bool) {
	q, err := readQuestion(asked)
	if err != nil {
		l.cfg.Logger.Warn("leased limits: could not decode the question of another node", "error", err)
		return nil, false
	}
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != token {
		return nil, false
	}
	l.stats.served.Add(1)
	a, commit := l.lend(g, i, &q)
	return a.append(nil), commit
}

// lend decides a question. commit tells that something of the answer must be in the journal before it is
// told. The caller holds g.mu.
func (l *LeasedLender) lend(g *group, i int, q *question) (a answer, commit bool) {
	now := l.side.Now()
	g.sweep(now, l.most)
	asked := make([]weir.Check, len(q.items))
	beside := make([]uint64, len(q.items))
	books := make([]*book, len(q.items))
	for k := range q.items {
		it := &q.items[k]
		if replication.Of(l.cfg.Engine).PartitionOf(it.key)%kv.Groups != i {
			return answer{err: &weir.Error{Code: weir.CodeInvalidKey, Field: "key", Message: "the key is of another group: all nodes must have as many partitions"}}, false
		}
		of, err := side.Of(l.cfg.Engine).LimitOfRecord(it.record)
		if err != nil {
			return answer{err: err}, false
		}
		asked[k] = weir.Check{Limit: of, Key: it.key, N: it.ask.Need, Shadow: it.shadow}
		terms := grant.TermsOf(of.Limit())
		var full bool
		if books[k], full = g.bookFor(bookKey{of.Name(), it.key}, terms, l.most); full || g.closed {
			it.ask.Want = 0
		}
		if it.ask.ID.Number != 0 {
			books[k].Settle(l.lending(g, now, q.node, terms), &it.ask, func(at int64, n uint64) {
				l.side.Use(of, it.key, at, n)
			})
		}
		beside[k] = books[k].Out(now, terms)
	}
	a.Verdicts = make([]weir.Verdict, len(asked))
	var err error
	if a.Allowed, err = l.side.DecideBeside(asked, beside, a.Verdicts, true); err != nil {
		// What was reported counts; what is out stays so. The node asks again.
		return answer{err: err}, false
	}
	for k := range q.items {
		it, terms := &q.items[k], books[k].terms
		d, err := l.decided(asked[k], beside[k])
		if err != nil {
			return answer{err: err}, false
		}
		d.Allowed = a.Verdicts[k].Allowed
		if it.ask.Need > 0 && !d.Allowed {
			if beside[k] > 0 && d.Free+beside[k] >= it.ask.Need {
				l.stats.short.Add(1)
			}
		}
		if it.ask.ID.Number == 0 {
			a.grants = append(a.grants, grant.Answer{Allowed: d.Allowed, Free: d.Free, Wait: d.Wait, Reset: d.Reset})
		} else {
			a.grants = append(a.grants, books[k].Grant(l.lending(g, now, q.node, terms), &it.ask, d))
		}
		out := books[k].Own(now, terms)
		if out > 0 || books[k].told > 0 {
			if err := l.side.SetOut(asked[k].Limit, l.cfg.Node, it.key, terms.Held(), out); err != nil {
				return answer{err: err}, false
			}
		}
		books[k].told = out
		commit = commit || out > 0 || a.Allowed && it.ask.Need > 0
	}
	return a, commit
}

func (l *LeasedLender) lending(g *group, now int64, node string, terms grant.Terms) grant.Lend {
	return grant.Lend{Now: now, Node: node, Token: g.token, Terms: terms}
}

// decided is what the limit says after the needs were decided.
func (l *LeasedLender) decided(c weir.Check, out uint64) (d grant.Decided, err error) {
	v, err := c.Limit.Peek(c.Key, 0)
	if err != nil {
		return d, err
	}
	d.Free, d.Reset = v.Remaining-min(v.Remaining, out), v.Reset
	if v.Remaining < c.Limit.Limit().Burst {
		more, err := c.Limit.Peek(c.Key, v.Remaining+1)
		if err != nil {
			return d, err
		}
		d.Wait = max(more.RetryAfter, time.Millisecond)
	}
	return d, nil
}

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
	key := entryKey{side.Record(c.Limit), c.Key}
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

// named calls f with the entries of a key whose limits have a name: requests may bring several limits of one name along.
// O(entries of the shard): it is for changes, which are rare. The caller holds sh.mu.
func (sh *shard) named(name, key string, f func(e *entry)) {
	prefix := string(wire.AppendText(nil, name)) // of the records: their length comes first
	for k, e := range sh.keys {
		if k.key == key && strings.HasPrefix(k.record, prefix) {
			f(e)
		}
	}
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
	e := sh.keys[entryKey{side.Record(c.Limit), c.Key}]
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
	e := sh.keys[entryKey{side.Record(c.Limit), c.Key}]
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
	if e := sh.keys[entryKey{side.Record(c.Limit), c.Key}]; e != nil {
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
