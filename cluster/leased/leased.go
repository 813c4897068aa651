package leased

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/lease"
	"github.com/weir-counter/weir/internal/limits"
)

// Config sets up a Leased. Engine and Node must be given.
type Config struct {
	Engine *weir.Engine
	Node   string       // this one's name, another for each node
	Logger *slog.Logger // nil: none
}

// Holder asks the nodes that hold groups, of which this one may be one: a strict.Strict that has this
// Leased's Lender.
type Holder interface {
	Group(key string) int
	Ask(group int, question []byte) (answer []byte, err error)
	Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error)
	Change(c limits.Change, of weir.Check) (made limits.Changed, answered bool, err error)
}

// Leased decides leased limits, and lends. It is safe for many goroutines.
type Leased struct {
	lends  Lender
	cfg    Config
	side   limits.Lender
	holder Holder

	seed    maphash.Seed
	shards  [shards]shard
	number  atomic.Uint64 // of the newest credit
	asking  [lease.Groups]atomic.Bool
	wake    chan struct{} // a credit is lent, the first one
	stop    context.CancelFunc
	running sync.WaitGroup
	stats   counters
}

// counters are what Stats tells.
type counters struct{ local, asked, served, short atomic.Uint64 }

// Stats are figures since New.
type Stats struct {
	Local  uint64 // decisions within what this node was lent, or by what a holder said a moment ago
	Asked  uint64 // messages to holders, this node included
	Served uint64 // questions that this node answered as the holder
	Short  uint64 // denials while other nodes had enough of the limit that they had not used
	Keys   int    // keys of which this node keeps what it has, or had, lately
	Lent   uint64 // admissions that this node has now, and has not used
	Out    uint64 // admissions that this node has lent as the holder, and that count as used
}

// New returns one that decides nothing until Run.
func New(cfg Config) *Leased {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Leased{cfg: cfg, side: limits.Lending(cfg.Engine), seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
	l.lends = Lender{cfg: cfg, side: l.side, stats: &l.stats, most: maxBooks}
	for i := range l.shards {
		l.shards[i].keys, l.shards[i].lent = map[entryKey]*entry{}, map[*entry]struct{}{}
	}
	l.number.Store(uint64(time.Now().UnixNano())) // in another life another: it is said only to tell credits apart
	return l
}

// Lender is what the Holder of this node needs.
func (l *Leased) Lender() *Lender { return &l.lends }

// Run has it decide: holder asks whom it asks. It owns one goroutine, and some that ask, until Close.
func (l *Leased) Run(holder Holder) {
	l.holder = holder
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.tick(ctx) })
}

// Close ends what Run began, before the Holder is closed. What is lent is told to nobody: it counts
// until it has ended.
func (l *Leased) Close() {
	l.stop()
	l.running.Wait()
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

// Change is of admit.Strict: the holder makes it. What is out stays out, and a node may deny for
// a moment by what was said before.
func (l *Leased) Change(c limits.Change, of weir.Check) (made limits.Changed, answered bool, err error) {
	l.stats.asked.Add(1)
	return l.holder.Change(c, of)
}

// Stats returns the figures.
func (l *Leased) Stats() Stats {
	s := Stats{Local: l.stats.local.Load(), Asked: l.stats.asked.Load(), Served: l.stats.served.Load(), Short: l.stats.short.Load()}
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
