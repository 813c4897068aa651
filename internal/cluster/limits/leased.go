// Package leased decides limits at the node that is asked, within parts of them that the node that
// decides for all has lent to it: package internal/cluster/grant says why they are never exceeded.
//
// A Leased is both sides. As the node that is asked it keeps a grant.Credit of each key that it was
// asked for lately: Take decides by these, Decide asks the holder where that can't be. As the
// holder (strict.Lender) it keeps a grant.Book of each key of which anything is out, for the groups
// whose leases package strict has. What it lends is in the journal before it is told.
package limits

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/side"
)

// LeasedConfig sets up a Leased. Engine and Node must be given.
type LeasedConfig struct {
	Engine *weir.Engine
	Node   string       // this one's name, another for each node
	Logger *slog.Logger // nil: none
}

// LeasedHolder asks the nodes that hold groups, of which this one may be one: a strict.Strict that has this
// Leased's Lender.
type LeasedHolder interface {
	Group(key string) int
	Ask(group int, question []byte) (answer []byte, err error)
	Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error)
	Change(c side.Change, of weir.Check) (made side.Changed, answered bool, err error)

	// Changed tells all nodes, this one too, that a key may have more of the limit of a name than before (Lender.Resume).
	Changed(name, key string)
}

// Leased decides leased limits, and lends. It is safe for many goroutines.
type Leased struct {
	lends  LeasedLender
	cfg    LeasedConfig
	side   side.Lender
	holder LeasedHolder

	seed    maphash.Seed
	shards  [shards]shard
	number  atomic.Uint64 // of the newest credit
	asking  [kv.Groups]atomic.Bool
	wake    chan struct{} // a credit is lent, the first one
	stop    context.CancelFunc
	running sync.WaitGroup
	stats   counters
}

// counters are what Stats tells.
type counters struct{ local, asked, served, short atomic.Uint64 }

// LeasedStats are figures since New.
type LeasedStats struct {
	Local  uint64 // decisions within what this node was lent, or by what a holder said a moment ago
	Asked  uint64 // messages to holders, this node included
	Served uint64 // questions that this node answered as the holder
	Short  uint64 // denials while other nodes had enough of the limit that they had not used
	Keys   int    // keys of which this node keeps what it has, or had, lately
	Lent   uint64 // admissions that this node has now, and has not used
	Out    uint64 // admissions that this node has lent as the holder, and that count as used
}

// NewLeased returns one that decides nothing until Run.
func NewLeased(cfg LeasedConfig) *Leased {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Leased{cfg: cfg, side: side.Lending(cfg.Engine), seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
	l.lends = LeasedLender{of: l, cfg: cfg, side: l.side, stats: &l.stats, most: maxBooks}
	for i := range l.shards {
		l.shards[i].keys, l.shards[i].lent = map[entryKey]*entry{}, map[*entry]struct{}{}
	}
	l.number.Store(uint64(time.Now().UnixNano())) // in another life another: it is said only to tell credits apart
	return l
}

// Lender is what the Holder of this node needs.
func (l *Leased) Lender() *LeasedLender { return &l.lends }

// Run has it decide: holder asks whom it asks. It owns one goroutine, and some that ask, until Close.
func (l *Leased) Run(holder LeasedHolder) {
	l.holder = holder
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.tick(ctx) })
}

// Close ends what Run began, before the LeasedHolder is closed, and gives back what is granted and not used.
func (l *Leased) Close() {
	l.stop()
	l.running.Wait()
	l.giveBack(func(int) bool { return true })
}

// giveBack gives back what is granted of keys of some groups, and reports what was used of it.
func (l *Leased) giveBack(of func(group int) bool) {
	left := map[int][]*entry{}
	now := l.side.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for e := range sh.lent {
			group := l.Group(e.key.key)
			if !of(group) || !e.Lent() {
				continue
			}
			e.Stop(now)
			if e.busy == nil { // else who asks does it with the next message
				e.busy = make(chan struct{})
				left[group] = append(left[group], e)
			}
		}
		sh.mu.Unlock()
	}
	var reporting sync.WaitGroup
	for group, entries := range left {
		for part := range slices.Chunk(entries, weir.MaxChecks) {
			reporting.Go(func() { l.reportEntries(group, part) })
		}
	}
	reporting.Wait()
}

// Group is the group of a key.
func (l *Leased) Group(key string) int { return l.holder.Group(key) }

// Take decides a request at this node, all limits or none, as far as what it was lent reaches. If it is
// not decided nothing was taken, and Decide decides.
func (l *Leased) Take(asked []weir.Check, verdicts []weir.Verdict) (allowed, decided bool) {
	now := l.side.Now()
	for i := range asked {
		c := &asked[i]
		outcome := undecided
		if c.N > 0 {
			outcome = l.takeHere(c, &verdicts[i], now)
		}
		if outcome == admitted || outcome == denied && c.Shadow {
			continue
		}
		l.undo(asked[:i], verdicts[:i])
		if outcome == undecided {
			return false, false
		}
		l.see(asked, verdicts, i, now)
		l.stats.local.Add(1)
		return false, true
	}
	l.stats.local.Add(1)
	return true, true
}

// see fills in the verdicts of the other checks of a request that one denies.
func (l *Leased) see(asked []weir.Check, verdicts []weir.Verdict, denies int, now int64) {
	for i := range asked {
		if c := &asked[i]; i != denies && !l.peekHere(c, &verdicts[i], now) {
			verdicts[i], _ = c.Limit.Peek(c.Key, c.N) // the key was checked: by what is known here
		}
	}
}

// Decide is of admit.Strict: it takes at this node what it can, and the rest at the holder of the
// keys' group. Peeks are the holder's.
func (l *Leased) Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	q := request{Leased: l, asked: asked, verdicts: verdicts}
	if !take || !takes(asked) {
		l.stats.asked.Add(1)
		return l.holder.Decide(asked, verdicts, take)
	}
	return q.decide()
}

// Change is of admit.Strict: the owner makes it, once it knows what this node has used of the key: what is given back
// may be of that. What is granted stays granted.
func (l *Leased) Change(c side.Change, of weir.Check) (made side.Changed, answered bool, err error) {
	l.reportKey(&of)
	l.stats.asked.Add(1)
	return l.holder.Change(c, of)
}

// reportKey reports what was used of a key under the name of a limit, if the owner may not know it. What is not answered is
// reported later.
func (l *Leased) reportKey(c *weir.Check) {
	sh := l.shard(c.Key)
	for until := time.Now().Add(patience); time.Now().Before(until); {
		var report []*entry
		var busy chan struct{}
		sh.mu.Lock()
		sh.named(c.Limit.Name(), c.Key, func(e *entry) {
			switch {
			case !e.Untold():
			case e.busy != nil:
				busy = e.busy
			case len(report) < weir.MaxChecks:
				e.busy = make(chan struct{})
				report = append(report, e)
			}
		})
		sh.mu.Unlock()
		if len(report) > 0 {
			l.reportEntries(l.Group(c.Key), report)
		}
		if busy == nil {
			return
		}
		select {
		case <-busy:
		case <-time.After(time.Until(until)):
		}
	}
}

// Resume is of Lender: the owner of a key says that the key may have more of the limit of a name than it said before.
func (l *LeasedLender) Resume(name, key string) {
	sh := l.of.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.named(name, key, func(e *entry) { e.Resume() })
}

// Stats returns the figures.
func (l *Leased) Stats() LeasedStats {
	s := LeasedStats{Local: l.stats.local.Load(), Asked: l.stats.asked.Load(), Served: l.stats.served.Load(), Short: l.stats.short.Load()}
	now := l.side.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		s.Keys += len(sh.keys)
		for e := range sh.lent {
			s.Lent += e.Left(now)
		}
		sh.mu.Unlock()
	}
	for i := range l.lends.groups {
		g := &l.lends.groups[i]
		g.mu.Lock()
		for _, b := range g.books {
			s.Out += b.Out(now, b.terms)
		}
		g.mu.Unlock()
	}
	return s
}

// tickEvery is how often the node looks whether it should ask for more, report or give back: as often
// as the shortest pace, while it has anything.
const tickEvery = 5 * time.Millisecond

// tick asks holders for what is due, though no request waits for it.
func (l *Leased) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		due, some := l.due()
		for group, entries := range due {
			for len(entries) > 0 {
				part := entries[:min(len(entries), weir.MaxChecks)]
				entries = entries[len(part):]
				l.running.Go(func() { l.report(group, part) })
			}
		}
		if !some {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// due are the entries of each group that are due, which are busy from now on; some tells whether there
// are any that may be later. Of a group that is being asked none is.
func (l *Leased) due() (due map[int][]*entry, some bool) {
	now := l.side.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for e := range sh.lent {
			switch {
			case !e.Lent() || e.Idle(now, e.terms):
				delete(sh.lent, e)
				continue
			case e.busy == nil && e.Due(now, e.terms):
				group := l.Group(e.key.key)
				if !l.asking[group].Load() {
					if due == nil {
						due = map[int][]*entry{}
					}
					e.busy = make(chan struct{})
					due[group] = append(due[group], e)
				}
			}
			some = true
		}
		sh.mu.Unlock()
	}
	return due, some
}

// report asks for entries of one group, and releases them.
func (l *Leased) report(group int, entries []*entry) {
	l.asking[group].Store(true)
	defer l.asking[group].Store(false)
	l.reportEntries(group, entries)
}

func (l *Leased) reportEntries(group int, entries []*entry) {
	// What is lost is said again: all that is told are totals.
	_, _ = l.message(group, func(k int) (*weir.Check, *entry) { return nil, entries[k] }, make([]uint64, len(entries)))
	for _, e := range entries {
		l.release(e)
	}
}
