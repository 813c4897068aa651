package query

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/recent"
)

// Config sets up a Router. Engine, Conn, Self, Holders and Freshness must be given;
// zeros of the others mean the defaults.
type Config struct {
	Engine *weir.Engine
	Conn   *nats.Conn

	// Self is this node's id, and Holders says which other nodes that are up hold a
	// partition, the best first. Ids are short, and one token of a NATS subject. It
	// is called for each question, and for each partition of one about all keys.
	Self    string
	Holders func(partition int) []string

	// Freshness says until when the hits of all nodes are counted here, and which
	// nodes are late. It is called 20 times a second at most.
	Freshness func() (asOf time.Time, late []Late)

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

	// DecideWithin is how long a decision of limits may wait for a holder. 0: 250 ms, some
	// ten times what it takes on a machine that is busy.
	DecideWithin time.Duration

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

	defaultDecision = 250 * time.Millisecond

	// scanFactor is how much longer a scan may take.
	scanFactor = 10

	// attempts is how many holders in a row may be silent within the deadline.
	attempts = 3
)

// Router answers questions about all keys, and those of other nodes about what this
// one holds. It is safe for many goroutines. It owns some, until Close.
type Router struct {
	cfg        Config
	engine     *weir.Engine
	log        *slog.Logger
	partitions int

	fresh  recent.Value[Fresh]
	single *singleflight
	peers  peers
	inbox  *inbox
	serve  *serving
	stats  counters

	deciding atomic.Int64 // decisions under way

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	mu      sync.Mutex // guards closed, and running against Wait
	closed  bool
	running sync.WaitGroup
}

type counters struct{ asked, requests, failed, unanswered, decisions, undecided atomic.Uint64 }

// Stats are figures since Open.
type Stats struct {
	Asked      uint64 // questions put to other nodes, again where one did not answer
	Joined     uint64 // questions that waited for the answer to an equal one
	Repeated   uint64 // questions answered by what an equal one was told just before
	Requests   uint64 // messages with questions to other nodes
	Failed     uint64 // those without an answer: in time, or that was understood
	Unanswered uint64 // questions that no holder answered
	Refused    uint64 // questions not asked, because too many waited
	Served     uint64 // questions of other nodes that were answered
	Dropped    uint64 // messages of other nodes that waited for too long or were too many
	Asking     int    // questions and decisions under way now
	Decisions  uint64 // decisions of shared limits that were put to other nodes
	Undecided  uint64 // those that no holder made in time, or that were too many: this node did by itself
}

// Open answers questions from now on. The engine may hold nothing yet.
func Open(cfg Config) (*Router, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = defaultDeadline
	}
	if cfg.DecideWithin == 0 {
		cfg.DecideWithin = defaultDecision
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
		Joined: r.single.joined.Load(), Repeated: r.single.repeated.Load(), Refused: r.single.refused.Load(), Asking: int(r.single.asking.Load() + r.deciding.Load()),
		Served: r.serve.answered.Load(), Dropped: r.serve.dropped.Load(),
		Decisions: r.stats.decisions.Load(), Undecided: r.stats.undecided.Load(),
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
	switch c {
	case scan:
		return scanFactor * r.cfg.Deadline
	case decision:
		return r.cfg.DecideWithin
	}
	return r.cfg.Deadline
}

// attempt is how long one node may take. What is decided may be taken already, and is
// not asked of another.
func (r *Router) attempt(c class) time.Duration {
	if c == decision {
		return r.deadline(c)
	}
	return r.deadline(c) / attempts
}

// subject is where a node takes questions.
func subject(id string) string { return "weir.ask." + id }
