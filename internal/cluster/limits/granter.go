package limits

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// group is what this node has granted to the keys of one group, while it is the owner.
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
	terms     grant.Terms
	journaled uint64 // in the journal: Own
}

// maxBooks bounds the keys of a group of which something is granted, without the grants of earlier owners. Of other keys
// nothing is granted, and nothing kept.
const maxBooks = 20_000

// sweepPause is between two sweeps of a group that has as many books as it may.
const sweepPause = time.Second

// learn begins a time as the owner of a group, under the token of a claim. What earlier owners had granted is read from the
// engine, which has followed the journal up to the claim.
func (l *Limits) learn(i int, token uint64) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.closed, g.books, g.sweepAt = token, false, map[bookKey]*book{}, 0
	inGroup := func(partition int) bool { return partition%groupCount == i }
	l.cfg.Engine.Limits().Outs(inGroup, func(o admission.Out) {
		// Its terms come with the first question; until then nothing lapses but by Until.
		g.book(bookKey{o.Limit, o.Key}, grant.Terms{}).Recover(o.N, o.Until, o.Holder == l.cfg.Node)
	})
}

// recall has nothing of a group granted any more, or again, and returns how much nodes still have.
func (l *Limits) recall(i int, recall bool) (granted uint64) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = recall
	for _, b := range g.books {
		granted += b.Granted()
	}
	return granted
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

// bookFor is book for a question. If the group has as many books as it may, it returns one that is not kept, and full is true.
// The caller holds g.mu.
func (g *group) bookFor(key bookKey, terms grant.Terms, most int) (b *book, full bool) {
	if g.books[key] == nil && len(g.books) >= most {
		return &book{terms: terms}, true
	}
	return g.book(key, terms), false
}

// sweep forgets the books of which nothing is granted, once there are twice as many as were left the
// last time. Where there are as many as there may be, it also forgets the books that only know what was asked for. The
// caller holds g.mu.
func (g *group) sweep(now int64, most int) {
	full := len(g.books) >= most && now-g.sweptAt >= int64(sweepPause)
	if len(g.books) < g.sweepAt && !full {
		return
	}
	for key, b := range g.books {
		if b.Idle(now, b.terms) || full && b.GrantedNothing() {
			delete(g.books, key)
		}
	}
	g.sweepAt, g.sweptAt = min(max(256, 2*len(g.books)), most), now
}

// serve decides a question as the owner of a group, under a token. If commits is true, the journal must have
// the decision before it is answered. If ok is false, the node owns the group under another token.
func (l *Limits) serve(i int, token uint64, q *question) (a answer, commits, ok bool) {
	g := &l.groups[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != token {
		return a, false, false
	}
	l.stats.served.Add(1)
	if a, commits, a.err = l.decide(g, i, q); a.err != nil {
		commits = false
	}
	if l.decided != nil {
		l.decided(q)
	}
	return a, commits, true
}

// decide decides a question. An error is a *engine.Error, or of a record that is none: what was reported counts, and what is granted
// stays so. The caller holds g.mu.
func (l *Limits) decide(g *group, i int, q *question) (a answer, commits bool, err error) {
	now := l.cfg.Engine.Limits().Clock.Now()
	g.sweep(now, l.most)
	asked := make([]engine.Check, len(q.items))
	for k := range q.items {
		it := &q.items[k]
		if l.cfg.Engine.Keyspace().PartitionOf(it.key)%groupCount != i {
			return a, false, &engine.Error{Code: api.CodeInvalidKey, Field: "key", Message: "the key is of another group: all nodes must have as many partitions"}
		}
		keyed, err := l.cfg.Engine.Limits().LimitOfRecord(it.record)
		if err != nil {
			return a, false, err
		}
		asked[k] = engine.Check{Limit: keyed, Key: it.key, N: it.ask.Need, Shadow: it.shadow}
	}
	if q.isChange() {
		return l.change(g, q, asked[0])
	}
	return l.grant(g, q, asked, now)
}

func (l *Limits) change(g *group, q *question, check engine.Check) (a answer, commits bool, err error) {
	q.change.By = q.node
	if b := g.books[bookKey{check.Limit.Name(), check.Key}]; b != nil {
		q.change.Beside = b.Out(l.cfg.Engine.Limits().Clock.Now(), grant.TermsOf(check.Limit.Limit()))
	}
	made, err := q.change.MakeOnce(l.cfg.Engine, check.Limit, check.Key, check.N)
	if g.books[bookKey{check.Limit.Name(), check.Key}] != nil {
		l.owners.changed(check.Limit.Name(), check.Key)
	}
	a.Allowed, a.Verdicts = made.Was, []engine.Verdict{made.Verdict}
	// That a permit is lost only an owner that is still one may say.
	commits = made.Was || !q.change.Kind.OfPermit() || q.change.Kind == engine.ChangeRenewPermit
	made.Was, made.Verdict = false, engine.Verdict{}
	a.changed = made
	return a, commits, err
}

// grant takes what the items need, or looks whether it can be taken, and grants to the nodes' credits what they want.
func (l *Limits) grant(g *group, q *question, asked []engine.Check, now int64) (a answer, commits bool, err error) {
	out := make([]uint64, len(asked))
	grants := make([]*book, len(asked)) // nil: nothing is granted to the item's credit
	for k := range q.items {
		it, keyed := &q.items[k], asked[k].Limit
		key, terms := bookKey{keyed.Name(), it.key}, grant.TermsOf(keyed.Limit())
		b := g.books[key]
		if it.leases() && (b == nil || !b.GrantedOther(now, q.node, it.ask.ID.Number)) {
			var full bool
			if b, full = g.bookFor(key, terms, l.most); full || g.closed {
				it.ask.Want = 0
			}
			b.Settle(l.basis(g, now, q.node, terms), &it.ask, func(at int64, n uint64) {
				keyed.Use(it.key, at, n)
			})
			grants[k] = b
		}
		if b != nil {
			out[k] = b.Out(now, terms)
		}
	}
	a.Verdicts = make([]engine.Verdict, len(asked))
	if a.Allowed, _, err = l.cfg.Engine.Limits().DecideAll(asked, out, a.Verdicts, q.take); err != nil || !q.take {
		return a, false, err
	}
	a.grants = make([]grant.Answer, len(asked))
	for k, b := range grants {
		it := &q.items[k]
		commits = commits || a.Allowed && it.ask.Need > 0
		if b == nil {
			continue
		}
		terms := grant.TermsOf(asked[k].Limit.Limit())
		d, err := l.left(asked[k], out[k])
		if err != nil {
			return a, false, err
		}
		d.Allowed = a.Verdicts[k].Allowed
		if !d.Allowed && out[k] > 0 && d.Free+out[k] >= it.ask.Need {
			l.stats.short.Add(1)
		}
		a.grants[k] = b.Grant(l.basis(g, now, q.node, terms), &it.ask, d)
		own := b.Own(now, terms)
		if own > 0 || b.journaled > 0 {
			asked[k].Limit.SetOut(l.cfg.Node, it.key, terms.Held(), own)
		}
		b.journaled = own
		commits = commits || own > 0
	}
	return a, commits, nil
}

func (l *Limits) basis(g *group, now int64, node string, terms grant.Terms) grant.Basis {
	return grant.Basis{Now: now, Node: node, Token: g.token, Terms: terms}
}

// left is what the limit says after the needs were decided.
func (l *Limits) left(c engine.Check, out uint64) (d grant.Decided, err error) {
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

// maxEntries bounds the keys of a shard. Keys beyond that are decided by the owner.
const maxEntries = 4096

type shard struct {
	mu      sync.Mutex // guards all below, the entries too
	keys    map[entryKey]*entry
	active  map[*entry]struct{} // of keys: those that may have something to use, or to report
	sweepAt int                 // keys at which the idle ones are forgotten
	_       [64]byte
}

// entryKey is one key of one limit, by the limit's record: another limit of the same name has another grant.
type entryKey struct{ record, key string }

// entry is what this node has of a key.
type entry struct {
	*grant.Credit
	terms   grant.Terms
	limit   engine.Limit
	key     entryKey
	wall    int64         // Unix ns: what the node has is over by the time of day, too
	waiting uint64        // admissions that requests wait for, while one of them asks
	busy    chan struct{} // closed once that has its answer; nil: nobody asks
}

func (l *Limits) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%shards]
}

// entry finds or makes a key's entry; nil if there are too many. The caller holds sh.mu.
func (l *Limits) entry(sh *shard, c *engine.Check, now int64) *entry {
	key := entryKey{c.Limit.Record(), c.Key}
	if e := sh.keys[key]; e != nil {
		return e
	}
	if len(sh.keys) >= max(64, sh.sweepAt) {
		sh.sweep(now)
	}
	if len(sh.keys) >= maxEntries {
		return nil
	}
	rule := c.Limit.Limit()
	e := &entry{Credit: grant.NewCredit(l.number.Add(1)), terms: grant.TermsOf(rule), limit: rule, key: key}
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
			delete(sh.active, e)
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

// takeHere takes within the node's grants.
func (l *Limits) takeHere(c *engine.Check, v *engine.Verdict, now int64) outcome {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[entryKey{c.Limit.Record(), c.Key}]
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
func (l *Limits) peekHere(c *engine.Check, v *engine.Verdict, now int64) bool {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[entryKey{c.Limit.Record(), c.Key}]
	if e == nil || e.Heard == 0 {
		return false
	}
	e.verdict(v, now, c.N, e.Left(now) >= c.N || e.Paused(now, c.N) == 0)
	return true
}

// undo gives back what takeHere took for a request that is denied, or decided otherwise.
func (l *Limits) undo(asked []engine.Check, verdicts []engine.Verdict) {
	for i := range asked {
		if c := &asked[i]; verdicts[i].Allowed && c.N > 0 {
			l.undoOne(c)
		}
	}
}

func (l *Limits) undoOne(c *engine.Check) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.keys[entryKey{c.Limit.Record(), c.Key}]; e != nil {
		e.Undo(c.N)
	}
}

// verdict fills in what the node knows of the limit: its own part, and the holder's at its last answer.
func (e *entry) verdict(v *engine.Verdict, now int64, n uint64, allowed bool) {
	passed := time.Duration(now - e.Heard)
	*v = engine.Verdict{Allowed: allowed, Remaining: min(e.limit.Burst, e.Left(now)+e.Said.Free)}
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
