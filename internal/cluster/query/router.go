// Package query answers questions whose keys other nodes hold.
//
// A node holds some of the partitions (engine.Engine.Holds). Its own engine answers questions about these, without any
// message. Any other question goes to a node that holds the key, by NATS request and reply:
//
//   - The first holder whose circuit breaker is closed is asked. If it is down, does not answer in time or no longer holds
//     the partition, the next one is asked. A node that did not answer has its breaker open for a second.
//   - Questions about all keys go to as few nodes as hold all partitions together, each about its set. A key is in one
//     partition, so the answers add up exactly. The sum is complete or an error, never a part.
//   - Questions to one node leave together. A node has at most two requests of a class at once; questions that come
//     meanwhile leave with the next. Otherwise nothing waits.
//   - Equal questions share one request, and its answer is reused for one flush interval. It says up to when it is complete,
//     so it stays true.
//
// Every answer says up to when it is complete, and which nodes are late: the earliest time and the union of all nodes that
// took part.
package query

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/tracing"
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

	// Followed is the last message of the journal that was applied here. Other nodes answer questions that need a later one.
	// nil: there is no journal.
	Followed func() uint64

	// Flush writes all hits of this node so far to the journal. A deletion at another node deletes the hits before it in the
	// journal: without Flush, hits on their way from here would outlive it. nil: there is no journal.
	Flush func(ctx context.Context) error

	// Deadline is how long a question may wait for its answer. Series and lists have ten times as long, because they read
	// many keys. So do questions that need a message of the journal: their callers say how long they wait. After a third of
	// it, the next holder is asked. 0: 1 s.
	Deadline time.Duration

	// FlushEvery is how long an answer is given again to equal questions, a second at most.
	// 0: 100 ms.
	FlushEvery time.Duration

	// Logger logs which nodes do not answer. nil: none.
	Logger *slog.Logger
	// Tracer makes spans of questions of other nodes; nil: there are none.
	Tracer *tracing.Tracer
}

const (
	defaultDeadline   = time.Second
	defaultFlushEvery = 100 * time.Millisecond

	// mostShared bounds how old an answer may be: a node that flushes rarely still sees what others flush.
	mostShared = time.Second

	// scanFactor is how much longer a scan may take.
	scanFactor = 10

	// attempts is how many holders in a row may be silent within the deadline.
	attempts = 3
)

// Router answers questions about keys of all nodes, and questions of other nodes about keys that this one holds. It is safe
// for many goroutines. It owns some, until Close.
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
	Asked      uint64 `metric:"weir_route_asked_total" doc:"Queries sent to other nodes, including repeated ones."`
	Joined     uint64 `metric:"weir_route_joined_total" doc:"Queries that shared the answer to an equal one, and were not sent."`
	Repeated   uint64 `metric:"weir_route_repeated_total" doc:"Queries answered with the answer to an equal query within the last flush interval."`
	Requests   uint64 `metric:"weir_route_requests_total" doc:"Messages with queries to other nodes."`
	Failed     uint64 `metric:"weir_route_failed_requests_total" doc:"Subqueries that were not answered in time, or not understood. The next holder was asked."`
	Unanswered uint64 `metric:"weir_route_unanswered_total" doc:"Queries that no holder answered in time: any is an alarm."`
	Refused    uint64 `metric:"weir_route_refused_total" doc:"Queries that were refused because too many were waiting for other nodes."`
	Served     uint64 `metric:"weir_route_served_total" doc:"Queries of other nodes that this node answered."`
	Dropped    uint64 `metric:"weir_route_dropped_total" doc:"Messages of other nodes that this node did not answer because they were late or too many."`
	Asking     int    `metric:"weir_route_asking" doc:"Queries that are waiting for other nodes."`
}

// Open answers questions from now on. The engine may hold nothing yet.
func Open(cfg Config) (*Router, error) {
	cfg.Deadline = cmp.Or(cfg.Deadline, defaultDeadline)
	cfg.FlushEvery = cmp.Or(cfg.FlushEvery, defaultFlushEvery)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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

// Close answers what other nodes have asked, and then stops. Own questions that wait fail. Call it before the connection
// ends. A second call does nothing.
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

// goes runs f in a goroutine, which Close waits for. After Close it returns false.
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

// attempt returns how long one node may take.
func (r *Router) attempt(c class) time.Duration { return r.deadline(c) / attempts }

func subject(id string) string { return "weir.ask." + id }
