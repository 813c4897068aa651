package limits

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/concurrency"
)

// This file is what a node does as the owner of groups of keys, and as one that asks owners.
//
// The keys are divided into groupCount groups, by their partitions. Each has one owner, which decides for its keys
// (owner.go); any other node sends its question there. An admission is answered only once it is in the journal, and
// no later claim of the group is. One that is not answered may still count: a limit admits less for it, never more.
// Denials, and questions that take nothing, need neither.
//
// When the owner does not answer in time, nobody decides: what becomes of the request is the policy's choice.

// groupCount is how many groups there are: a claim of all is small, and a node of some dozen owns some.
const groupCount = 16

// DefaultDeadline is what a question takes, at most, while the stream of the journal gets another leader since a node stopped.
const DefaultDeadline = time.Second

// ownerTime is how long a question may wait for an owner, while a group is handed over.
const ownerTime = time.Second

// owners asks, and answers for the groups that this node owns. It is safe for many
// goroutines. It owns three of them, and one for each flush that is waited
// for, until close, which must come before the journal's.
type owners struct {
	cfg     Config
	limits  *Limits
	conn    *nats.Conn
	origin  string
	peers   peers
	offers  chan offer
	leaving atomic.Bool
	groups  []ownedGroup
	heard   []*nats.Subscription

	counters Counters
	commits  commits
	life     context.Context // until Close
	stop     context.CancelFunc
	changing atomic.Int64 // changes that are asked for
	running  sync.WaitGroup
	stats    ownerCounters
}

// ownerCounters are the figures of OwnerStats.
type ownerCounters struct{ decided, forwarded, unanswered, lost, refused atomic.Uint64 }

// OwnerStats are figures of questions to owners, since Open.
type OwnerStats struct {
	Held       int    `metric:"weir_strict_groups_held" doc:"Groups of keys, of 16, that this node owns: it decides their limits."`
	Decided    uint64 `metric:"weir_strict_decided_total" doc:"Requests about limits that this node decided as owner."`
	Forwarded  uint64 `metric:"weir_strict_forwarded_total" doc:"Requests about limits that this node sent to other owners."`
	Unanswered uint64 `metric:"weir_strict_unanswered_total" doc:"Requests about limits of this node that nobody decided in time."`
	Lost       uint64 `metric:"weir_strict_unacknowledged_total" doc:"Admissions that count although no answer was sent, because the lease or the journal was lost."`
	Refused    uint64 `metric:"weir_strict_refused_total" doc:"Requests of other nodes that were refused because too many waited for the journal."`
}

// newOwners returns one that owns nothing until open.
func newOwners(l *Limits) *owners {
	cfg := l.cfg
	s := &owners{
		cfg: cfg, limits: l, conn: cfg.Journal.Joined().Conn(), origin: cfg.Journal.Origin(), offers: make(chan offer, groupCount),
		peers: peers{nodes: map[string]announced{}, began: time.Now()}, groups: make([]ownedGroup, min(groupCount, cfg.Engine.Config().Partitions)),
	}
	s.counters.owners = s
	for i := range s.groups {
		s.groups[i].name = fmt.Sprintf("partitions-%02d", i)
	}
	return s
}

// open takes part in deciding: this node owns its share of the groups as soon as it is their turn.
func (s *owners) open() error {
	for subject, f := range map[string]nats.MsgHandler{ownersSubject: s.hear, takeSubject + s.origin: s.offered, changedSubject: s.resume, recallSubject: s.recalled, countersSubject + s.origin: s.counters.answer} {
		sub, err := s.conn.Subscribe(subject, f)
		if err != nil {
			return fmt.Errorf("limits: %w", err)
		}
		s.heard = append(s.heard, sub)
	}
	for i := range s.groups {
		sub, err := s.conn.Subscribe(subject(s.origin, i), func(msg *nats.Msg) { s.answer(i, msg) })
		if err == nil {
			err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
		}
		if err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.running.Go(func() { concurrency.Repeat(s.life, announceEvery, s.announce) }) // whatever the keeper waits for
	s.running.Go(func() { concurrency.Repeat(s.life, keepEvery, func() { s.keep(s.life) }) })
	s.running.Go(func() { s.accept(s.life) })
	return nil
}

// close hands the groups over to other nodes, while ctx lasts. Questions that come later are answered until the connection ends: the nodes that
// ask them ask the next owner.
func (s *owners) close(ctx context.Context) error {
	s.leaving.Store(true)
	s.announce()
	for ctx.Err() == nil {
		v, owned := s.view(), 0
		for i := range s.groups {
			if _, ok := s.owns(i); ok {
				owned++
			}
		}
		if owned == 0 || len(v.names) == 0 {
			break
		}
		_ = concurrency.Sleep(ctx, keepEvery/4)
	}
	s.commits.mu.Lock()
	s.commits.closed = true
	s.commits.mu.Unlock()
	s.stop()
	s.running.Wait()
	for _, sub := range s.heard {
		_ = sub.Unsubscribe() // the connection ends in any case
	}
	for i := range s.groups {
		s.groups[i].token.Store(0)
	}
	return ctx.Err()
}

// breaker keeps requests from waiting, all of them, for an owner that does not answer. After a question that got no answer in
// time nobody is asked for a short rest. Then one request at a time tries, and the first answer ends it. The
// rest is breakerLeast at first. It doubles after each trial that gets no answer, up to breakerTime. The zero breaker rests nobody.
type breaker struct {
	mu       sync.Mutex
	failures int       // questions without an answer, one after the other
	since    time.Time // the last of them was given up then
	until    time.Time // nobody is asked before
	trying   bool      // one request tries
}

const (
	breakerLeast = 25 * time.Millisecond
	breakerTime  = time.Second
)

// enter reports whether a request may ask. If so, the request calls leave with the result.
func (b *breaker) enter(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == 0 {
		return true
	}
	if b.trying || now.Before(b.until) {
		return false
	}
	b.trying = true
	return true
}

// leave is the end of a question that was asked at began: it was answered, or not in time, or failed at once.
func (b *breaker) leave(began, now time.Time, answered, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered:
		b.failures, b.trying = 0, false
	case b.failures > 0 && began.Before(b.since): // asked together with one that is counted already
	case late:
		b.failures, b.trying = b.failures+1, false
		b.since, b.until = now, now.Add(min(breakerLeast<<min(b.failures-1, 10), breakerTime))
	default:
		b.trying = false
	}
}

// commits are admissions that wait until they are in the journal.
type commits struct {
	mu     sync.Mutex
	count  int
	last   *flush // that the next commit may join; nil: none
	closed bool   // nothing is committed any more
}

// flush is the admissions that one flush of the journal has.
type flush struct {
	group *concurrency.Group
	list  []commit
	done  chan struct{} // closed once all are answered, or lost
}

// commit is one admission, decided under the token of a claim.
type commit struct {
	group int // -1: a barrier, which waits for all commits before it
	token uint64
	tell  func()
	empty bool // it may have put nothing into the journal
}

// maxCommits is how many may wait: some thousand a flush are more than one node can
// decide.
const maxCommits = 10_000

func (c *commits) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count >= maxCommits
}

// commit has an admission answered once the next flush is in the journal, and the journal was followed up to there: no later claim came.
func (s *owners) commit(one commit) {
	c := &s.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		s.stats.lost.Add(1)
		return
	}
	if group := s.cfg.Journal.NextFlush(one.empty); c.last == nil || c.last.group != group {
		before, next := c.last, &flush{group: group, done: make(chan struct{})}
		c.last = next
		s.running.Go(func() { s.flushed(next, before) })
	}
	c.last.list = append(c.last.list, one)
	c.count++
}

// commitTime bounds the wait for the journal: then who asked has given up.
const commitTime = changeTime

// flushed answers the admissions of a flush, after the admissions of the one before it.
func (s *owners) flushed(f, before *flush) {
	defer close(f.done)
	ctx, cancel := context.WithTimeout(s.life, commitTime)
	defer cancel()
	err := s.cfg.Journal.AwaitFlush(ctx, f.group)
	if before != nil {
		<-before.done
	}
	c := &s.commits
	c.mu.Lock()
	if c.last == f { // nobody joins it any more
		c.last = nil
	}
	c.count -= len(f.list)
	c.mu.Unlock()
	for _, one := range f.list {
		if one.group >= 0 {
			if token, ok := s.owns(one.group); err != nil || !ok || token != one.token {
				s.stats.lost.Add(1)
				continue
			}
		}
		one.tell()
	}
}
