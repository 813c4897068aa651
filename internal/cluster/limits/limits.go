// Package limits decides limits that the nodes of a cluster keep together: package internal/cluster/grant says why they are
// never exceeded.
//
// Each key has an owner, the node of the last claim of its group in the journal (owner.go). Limits is both sides. As the node that
// is asked it keeps a grant.Credit of each key of a leased limit that it was asked for lately. Take decides by these, and Decide asks the
// owner where they do not suffice. As the owner it keeps a grant.Book of each key of which anything is granted. What it grants is in the
// journal before it is answered. Of a strict limit nothing is granted: all its requests go to the owner.
package limits

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/limit"
)

// Config sets up a Limits. Journal, Engine and Node must be given; zeros mean the defaults.
type Config struct {
	Journal *durable.Journal // of a clustered node
	Engine  *engine.Engine   // that it keeps
	Node    string           // this one's name, another for each node, as durable.Origins has it

	// Deadline is how long a question may wait for its answer. 0: DefaultDeadline.
	Deadline time.Duration

	// Logger takes which groups this node decides for. nil: none.
	Logger *slog.Logger
	// Tracer makes spans of questions of other nodes; nil: there are none.
	Tracer *tracing.Tracer
}

// Limits decides leased and strict limits, for its node and as an owner. It is safe for many goroutines. It owns five of them, and
// some that ask, until Close.
type Limits struct {
	cfg    Config
	owners *owners

	// As the owner.
	groups  [groupCount]group
	most    int               // books of a group
	decided func(q *question) // of tests; nil: none

	seed    maphash.Seed
	shards  [shards]shard
	number  atomic.Uint64 // of the newest credit
	asking  [groupCount]atomic.Bool
	wake    concurrency.Signal // the first credit was granted something
	closing atomic.Bool        // this node takes no more grants
	stop    context.CancelFunc
	running sync.WaitGroup
	stats   counters
}

// counters are what Stats tells.
type counters struct{ local, asked, served, short atomic.Uint64 }

// Stats are figures of leased limits, since Open.
type Stats struct {
	Local   uint64 `metric:"weir_leased_local_total" doc:"Decisions under leased limits that this node made itself, within its quota lease or from a recent answer of the owner."`
	Asked   uint64 `metric:"weir_leased_messages_total" doc:"Messages about leased limits that this node sent to owners, itself included: decisions, grants and reports of usage."`
	Served  uint64 `metric:"weir_leased_served_total" doc:"Messages about leased limits that this node answered."`
	Short   uint64 `metric:"weir_leased_short_total" doc:"Denials while the owner or other nodes had unused quota: an upper bound of the requests that a single node would have admitted."`
	Keys    int    `metric:"weir_leased_keys" doc:"Keys of leased limits for which this node has recently decided."`
	Granted uint64 `metric:"weir_leased_granted" doc:"Unused admissions in the quota leases of this node."`
	Out     uint64 `metric:"weir_leased_out" doc:"Admissions that this node or an earlier owner has granted, and that count as used."`
}

// Open takes part in deciding: this node owns its share of the groups as soon as it is their turn.
func Open(cfg Config) (*Limits, error) {
	cfg.Deadline = cmp.Or(cfg.Deadline, DefaultDeadline)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := newLimits(cfg)
	l.owners = newOwners(l)
	if err := l.owners.open(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.tick(ctx) })
	return l, nil
}

// newLimits returns one that asks nobody.
func newLimits(cfg Config) *Limits {
	l := &Limits{cfg: cfg, seed: maphash.MakeSeed(), wake: concurrency.NewSignal(), most: maxBooks}
	for i := range l.shards {
		l.shards[i].keys, l.shards[i].active = map[entryKey]*entry{}, map[*entry]struct{}{}
	}
	l.number.Store(uint64(time.Now().UnixNano())) // it differs in each process; its only use is to distinguish credits
	return l
}

// Close gives back what is granted and not used, and hands the groups that this node owns over to other nodes, while ctx lasts.
// It must come before the journal's. Questions that wait then are not answered.
func (l *Limits) Close(ctx context.Context) error {
	l.closing.Store(true)
	l.stop()
	l.running.Wait()
	l.giveBack(func(int) bool { return true })
	return l.owners.close(ctx)
}

// Settled reports whether every group has an owner that is up, as far as this node knows: until then requests may not be
// decided.
func (l *Limits) Settled() bool {
	v := l.owners.view()
	for i := range l.owners.groups {
		if _, ok := l.owners.holds(i); !ok && !v.owned[i] {
			return false
		}
	}
	return true
}

// OwnerStats returns the figures of questions to owners.
func (l *Limits) OwnerStats() OwnerStats {
	is := &l.owners.stats
	s := OwnerStats{
		Decided: is.decided.Load(), Forwarded: is.forwarded.Load(), Unanswered: is.unanswered.Load(), Lost: is.lost.Load(), Refused: is.refused.Load(),
	}
	for i := range l.owners.groups {
		if _, ok := l.owners.owns(i); ok {
			s.Held++
		}
	}
	return s
}

// giveBack gives back what is granted to keys of some groups, and reports how much was used.
func (l *Limits) giveBack(selects func(group int) bool) {
	left := map[int][]*entry{}
	now := l.cfg.Engine.Limits().Clock.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for e := range sh.active {
			group := l.Group(e.key.key)
			if !selects(group) || !e.Active() {
				continue
			}
			e.Stop(now)
			if e.busy == nil { // else the asking goroutine does it with the next message
				e.busy = make(chan struct{})
				left[group] = append(left[group], e)
			}
		}
		sh.mu.Unlock()
	}
	var reporting sync.WaitGroup
	for group, entries := range left {
		for part := range slices.Chunk(entries, engine.MaxChecks) {
			reporting.Go(func() { l.reportEntries(group, part) })
		}
	}
	reporting.Wait()
}

// Group is the group of a key, 0 to groupCount-1.
func (l *Limits) Group(key string) int { return l.cfg.Engine.Keyspace().PartitionOf(key) % groupCount }

// Take decides a request at this node, all limits or none, as far as its grants reach. If it is
// not decided nothing was taken, and Decide decides.
func (l *Limits) Take(asked []engine.Check, verdicts []engine.Verdict) (allowed, decided bool) {
	now := l.cfg.Engine.Limits().Clock.Now()
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
func (l *Limits) see(asked []engine.Check, verdicts []engine.Verdict, denies int, now int64) {
	for i := range asked {
		if c := &asked[i]; i != denies && !l.peekHere(c, &verdicts[i], now) {
			verdicts[i], _ = c.Limit.Peek(c.Key, c.N) // the key was checked: by what is known here
		}
	}
}

// Decide is of admit.Owners: it takes at this node what it can, and the rest at the owner of the keys' group. Peeks are the owner's.
// The error is a *engine.Error of the owner's engine.
func (l *Limits) Decide(ctx context.Context, asked []engine.Check, verdicts []engine.Verdict, take bool) (allowed, answered bool, err error) {
	r := request{Limits: l, asked: asked, verdicts: verdicts, span: tracing.From(ctx)}
	if take && slices.ContainsFunc(asked, func(c engine.Check) bool { return c.N > 0 }) {
		return r.decide()
	}
	for i := range asked {
		r.mine = append(r.mine, pending{check: &asked[i], place: i})
	}
	return r.ask(false)
}

// Change is of admit.Owners: the owner makes it, once. Before that this node reports what it has used of the key, since the change may
// give that back. What is granted stays granted.
func (l *Limits) Change(c engine.Change, check engine.Check) (made engine.Changed, answered bool, err error) {
	if check.Limit.Where() != limit.WhereStrict {
		l.reportKey(&check)
	}
	q := changeOf(l.cfg.Node, c, check)
	l.stats.asked.Add(1)
	a, err := l.owners.change(l.Group(check.Key), q)
	if err != nil {
		return made, false, nil
	}
	if a.err != nil {
		return made, true, a.err
	}
	a.changed.Was, a.changed.Verdict = a.Allowed, a.Verdicts[0]
	return a.changed, true, nil
}

// reportKey reports what was used of a key under the name of a limit, if the owner may not know it. What is not answered is
// reported later.
func (l *Limits) reportKey(c *engine.Check) {
	sh := l.shard(c.Key)
	for until := time.Now().Add(patience); time.Now().Before(until); {
		var report []*entry
		var busy chan struct{}
		sh.mu.Lock()
		sh.named(c.Limit.Name(), c.Key, func(e *entry) {
			switch {
			case !e.Unconfirmed():
			case e.busy != nil:
				busy = e.busy
			case len(report) < engine.MaxChecks:
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

// resume ends what this node denies of a key under a name by what the key's owner said: the key may have more now.
func (l *Limits) resume(name, key string) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.named(name, key, func(e *entry) { e.Resume() })
}

// Stats returns the figures of leased limits.
func (l *Limits) Stats() Stats {
	s := Stats{Local: l.stats.local.Load(), Asked: l.stats.asked.Load(), Served: l.stats.served.Load(), Short: l.stats.short.Load()}
	now := l.cfg.Engine.Limits().Clock.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		s.Keys += len(sh.keys)
		for e := range sh.active {
			s.Granted += e.Left(now)
		}
		sh.mu.Unlock()
	}
	for i := range l.groups {
		g := &l.groups[i]
		g.mu.Lock()
		for _, b := range g.books {
			s.Out += b.Out(now, b.terms)
		}
		g.mu.Unlock()
	}
	return s
}

// tickEvery is how often the node looks whether it should ask for more, report or give back, while it has anything.
const tickEvery = 5 * time.Millisecond

// tick asks holders for what is due, though no request waits for it.
func (l *Limits) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		due, some := l.due()
		for group, entries := range due {
			for len(entries) > 0 {
				part := entries[:min(len(entries), engine.MaxChecks)]
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

// due are the entries of each group that are due. They are busy from now on. some reports whether there
// are any that may be due later. No entry of a group that is being asked is due.
func (l *Limits) due() (due map[int][]*entry, some bool) {
	now := l.cfg.Engine.Limits().Clock.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for e := range sh.active {
			switch {
			case !e.Active() || e.Idle(now, e.terms):
				delete(sh.active, e)
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
func (l *Limits) report(group int, entries []*entry) {
	l.asking[group].Store(true)
	defer l.asking[group].Store(false)
	l.reportEntries(group, entries)
}

func (l *Limits) reportEntries(group int, entries []*entry) {
	reported := make([]pending, len(entries))
	for k, e := range entries {
		reported[k].entry = e
	}
	_, _ = l.message(group, reported, true, nil) // what is lost is reported again: all are totals
	for _, e := range entries {
		l.release(e)
	}
}
