// Package query answers questions whose keys other nodes hold.
//
// A node holds some of the partitions (engine.Engine.Holds). A question about what it
// holds is answered by its own engine, without any message. Any other is asked of a
// node that holds the key, by NATS request and reply:
//
//   - The first holder whose circuit breaker is closed is asked; where it is gone, does not answer
//     in time or no longer holds the partition, the next one. A node that did not
//     answer has its breaker open for a second: others are asked before it.
//   - Questions about all keys are put to as few nodes as hold all partitions
//     together, each about its set of them. A key is in one partition, so what they
//     say adds up exactly. Answers are whole or an error, never a part.
//   - Questions to one node leave together: two requests of a kind are under way at
//     most, and what comes meanwhile leaves with the next. Nothing waits for company
//     otherwise.
//   - Equal questions that are under way share one, and an answer is given again for
//     one flush interval. It carries the time up to which it is complete, so it stays
//     true.
//
// Every answer says up to when it is complete, and which nodes are late: the earliest
// and the union of all nodes that took part.
package query

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Config sets up a Router. Engine, Conn, Self, Holders and Freshness must be given;
// zeros of the others mean the defaults.
type Config struct {
	Engine *engine.Engine
	Conn   *nats.Conn

	// Self is this node's id, and Holders says which other nodes that are up hold a
	// partition, the best first. Ids are short, and one token of a NATS subject. It
	// is called for each question, and for each partition of one about all keys.
	Self    string
	Holders func(partition int) []string

	// Freshness says until when the hits of all nodes are counted here, and which
	// nodes are late. It is called 20 times a second at most.
	Freshness func() api.Freshness

	// Followed is the last message of the journal that was applied here: questions
	// that need a later one are answered by other nodes. nil: there is no journal.
	Followed func() uint64

	// Flush brings all hits of this node so far into the journal. A deletion at
	// another node takes what is before it there: without Flush, hits that were on
	// their way from here would outlive it. nil: there is no journal.
	Flush func(ctx context.Context) error

	// Deadline is how long a question may wait for its answer; for series and lists,
	// whose holders go through many keys, it is ten times that. A holder has a third
	// of it, then the next one is asked. 0: 1 s.
	Deadline time.Duration

	// FlushEvery is how long an answer is given again to equal questions, a second at most.
	// 0: 100 ms.
	FlushEvery time.Duration

	// Logger takes which nodes do not answer. nil: none.
	Logger *slog.Logger
}

const (
	defaultDeadline   = time.Second
	defaultFlushEvery = 100 * time.Millisecond

	// mostShared bounds how old an answer may be: that this node writes rarely is no reason
	// to see rarely what others write.
	mostShared = time.Second

	// scanFactor is how much longer a scan may take.
	scanFactor = 10

	// attempts is how many holders in a row may be silent within the deadline.
	attempts = 3
)

// Router answers questions about all keys, and those of other nodes about what this
// one holds. It is safe for many goroutines. It owns some, until Close.
type Router struct {
	cfg        Config
	engine     *engine.Engine
	log        *slog.Logger
	partitions int

	fresh  concurrency.Value[api.Freshness]
	single *singleflight
	peers  peers
	inbox  *inbox
	serve  *serving
	stats  counters

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	mu      sync.Mutex // guards closed, and running against Wait
	closed  bool
	running sync.WaitGroup
}

type counters struct{ asked, requests, failed, unanswered atomic.Uint64 }

// Stats are figures since Open.
type Stats struct {
	Asked      uint64 `metric:"weir_route_asked_total" doc:"Questions put to other nodes, again where one did not answer."`
	Joined     uint64 `metric:"weir_route_joined_total" doc:"Questions that waited for the answer to an equal one, and were not sent."`
	Repeated   uint64 `metric:"weir_route_repeated_total" doc:"Queries answered with the answer to an equal query within the last flush interval."`
	Requests   uint64 `metric:"weir_route_requests_total" doc:"Messages with questions to other nodes."`
	Failed     uint64 `metric:"weir_route_failed_requests_total" doc:"Messages with questions that were not answered in time, or not understood: the next holder was asked."`
	Unanswered uint64 `metric:"weir_route_unanswered_total" doc:"Questions that no holder answered in time: any is an alarm."`
	Refused    uint64 `metric:"weir_route_refused_total" doc:"Questions that were not asked because too many waited for other nodes."`
	Served     uint64 `metric:"weir_route_served_total" doc:"Questions of other nodes that this node answered."`
	Dropped    uint64 `metric:"weir_route_dropped_total" doc:"Messages of other nodes that this node did not answer, because they had waited for too long or were too many."`
	Asking     int    `metric:"weir_route_asking" doc:"Questions that wait for other nodes now."`
}

// Open answers questions from now on. The engine may hold nothing yet.
func Open(cfg Config) (*Router, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = defaultDeadline
	}
	if cfg.FlushEvery == 0 {
		cfg.FlushEvery = defaultFlushEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Router{
		cfg: cfg, engine: cfg.Engine, log: cfg.Logger, partitions: cfg.Engine.Config().Partitions,
		single: newSingleflight(min(cfg.FlushEvery, mostShared)), peers: peers{list: map[string]*peer{}},
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	var err error
	if r.inbox, err = newInbox(cfg.Conn); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if r.serve, err = r.listen(); err != nil {
		r.inbox.close()
		return nil, fmt.Errorf("query: %w", err)
	}
	return r, nil
}

// Close stops answering: what other nodes have asked is still answered, and own
// questions that wait are not. It must come before the connection's end. A second
// call does nothing.
func (r *Router) Close() {
	r.mu.Lock()
	was := r.closed
	r.closed = true
	r.mu.Unlock()
	if was {
		return
	}
	r.serve.close()
	r.stop()
	r.running.Wait()
	r.inbox.close()
	r.single.close()
}

// Stats returns the figures.
func (r *Router) Stats() Stats {
	return Stats{
		Asked: r.stats.asked.Load(), Requests: r.stats.requests.Load(), Failed: r.stats.failed.Load(), Unanswered: r.stats.unanswered.Load(),
		Joined: r.single.joined.Load(), Repeated: r.single.repeated.Load(), Refused: r.single.refused.Load(), Asking: int(r.single.asking.Load()),
		Served: r.serve.answered.Load(), Dropped: r.serve.dropped.Load(),
	}
}

// goes runs f, which Close waits for; false after it.
func (r *Router) goes(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.running.Go(f)
	return true
}

func (r *Router) deadline(c class) time.Duration {
	if c == scan {
		return scanFactor * r.cfg.Deadline
	}
	return r.cfg.Deadline
}

// attempt is how long one node may take.
func (r *Router) attempt(c class) time.Duration { return r.deadline(c) / attempts }

// subject is where a node takes questions.
func subject(id string) string { return "weir.ask." + id }

// subquery is what one node is asked of a question about all keys.
type subquery struct {
	node string // "": this one
	in   replication.PartitionSet
}

// plan covers partitions with as few nodes as it can: what is held here, then of the
// others always the one that holds most of the rest (which needs at most ln n times
// as many as the best plan). Nodes whose circuit breaker is open come last. of says what a node may be
// asked, nil is all that Holders says it has. What nobody has is left.
func (r *Router) plan(rest replication.PartitionSet, of map[string]replication.PartitionSet) (subqueries []subquery, left replication.PartitionSet) {
	left = slices.Clone(rest)
	if own := both(left, r.engine.HeldPartitions()); own.Len() > 0 {
		subqueries, left = append(subqueries, subquery{in: own}), without(left, own)
	}
	fit, broken := map[string]replication.PartitionSet{}, map[string]replication.PartitionSet{}
	open := map[string]bool{}
	for partition := range r.partitions {
		if !left.Has(partition) {
			continue
		}
		for _, node := range r.cfg.Holders(partition) {
			if may := of[node]; node == r.cfg.Self || may != nil && !may.Has(partition) {
				continue
			}
			if _, known := open[node]; !known {
				open[node] = r.peers.breakerOpen(node, scan)
			}
			into := fit
			if open[node] {
				into = broken
			}
			if into[node] == nil {
				into[node] = replication.NewPartitionSet(r.partitions)
			}
			into[node].Add(partition)
		}
	}
	for _, nodes := range []map[string]replication.PartitionSet{fit, broken} {
		more, still := greedy(left, nodes)
		subqueries, left = append(subqueries, more...), still
	}
	return subqueries, left
}

// greedy takes the node with most of the rest, again and again; of equal ones the
// first by name.
func greedy(rest replication.PartitionSet, nodes map[string]replication.PartitionSet) (subqueries []subquery, left replication.PartitionSet) {
	for rest.Len() > 0 {
		best, most := "", 0
		for node, has := range nodes {
			n := common(rest, has)
			if n > most || n == most && n > 0 && node < best {
				best, most = node, n
			}
		}
		if most == 0 {
			break
		}
		in := both(rest, nodes[best])
		subqueries, rest = append(subqueries, subquery{best, in}), without(rest, in)
	}
	return subqueries, rest
}

func both(a, b replication.PartitionSet) replication.PartitionSet {
	c := slices.Clone(a)
	for i := range c {
		c[i] &= b[i]
	}
	return c
}

func without(a, b replication.PartitionSet) replication.PartitionSet {
	c := slices.Clone(a)
	for i := range c {
		c[i] &^= b[i]
	}
	return c
}

func common(a, b replication.PartitionSet) (n int) {
	for i := range a {
		n += bits.OnesCount64(a[i] & b[i])
	}
	return n
}

// first is the least partition of a set that has one.
func first(s replication.PartitionSet) int {
	for i, word := range s {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func all(partitions int) replication.PartitionSet {
	s := replication.NewPartitionSet(partitions)
	for i := range partitions {
		s.Add(i)
	}
	return s
}
