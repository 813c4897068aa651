package strict

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
	"github.com/weir-counter/weir/cluster/lease"
	"github.com/weir-counter/weir/cluster/placement"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal"
)

// Config sets up a Strict. Journal, Engine and Node must be given; zeros mean the
// defaults.
type Config struct {
	Journal *journal.Journal // of a clustered node
	Engine  *weir.Engine     // that it keeps
	Node    string           // this one's name, as journal.Origins has it

	// Deadline is how long a question may wait for its answer. 0: 250 ms.
	Deadline time.Duration

	// TTL is how long after a crash of its holder a group is without one. It is
	// that of the cluster: the first node that starts sets it. 0: lease.DefaultTTL.
	TTL time.Duration

	// Lender lends parts of limits to other nodes. What it has lent counts for strict limits of the
	// same name too. nil: nothing is lent.
	Lender Lender

	// Logger takes which groups this node decides for. nil: none.
	Logger *slog.Logger
}

// Lender is what decides beside a Strict, at the same node under the same lease: see package
// cluster/leased.
type Lender interface {
	// Learn is told that this node decides for a group from now on, under a lease's token. It knows all
	// that was told before.
	Learn(group int, token uint64)

	// Decide decides a question of this package.
	Decide(group int, q checks.Question) (checks.Answer, error)

	// Serve answers a question of the Lender's own, which is the bytes that another node's Ask was
	// given. With commit the answer is told once all that was counted is in the journal, if the lease
	// is still held. No answer is told if it is nil.
	Serve(group int, token uint64, question []byte) (answer []byte, commit bool)
}

// DefaultDeadline is some ten times what a question takes on a machine that is busy.
const DefaultDeadline = 250 * time.Millisecond

// bucket is that of the leases.
const bucket = "WEIR_STRICT"

// replicas of the leases, as many as the journal has.
const replicas = 3

// Strict asks, and answers for the groups that this node holds. It is safe for many
// goroutines. It owns two of them and the leases, until Close, which must come
// before the journal's.
type Strict struct {
	cfg    Config
	conn   *nats.Conn
	leases *lease.Holder
	groups [lease.Groups]group

	commits  commits
	life     context.Context // until Close
	stop     context.CancelFunc
	changing atomic.Int64 // changes that are asked for
	running  sync.WaitGroup
	stats    counters
}

// group is one part of the keys.
type group struct {
	name    string        // of its lease
	ready   atomic.Uint64 // token of the lease under which this node knows all; 0: none
	breaker breaker       // of the holder

	answering *nats.Subscription // nil: we are not the holder; the keeper's
}

// counters are what Stats tells.
type counters struct{ decided, forwarded, unanswered, lost, refused atomic.Uint64 }

// Stats are figures since Open.
type Stats struct {
	Held       int    // groups that this node decides for now
	Decided    uint64 // questions that this node decided
	Forwarded  uint64 // questions that it sent to others
	Unanswered uint64 // of all its own questions: nobody decided in time
	Lost       uint64 // admissions that count but were not told: the lease or the journal was lost meanwhile
	Refused    uint64 // questions of others not taken, because too many waited for the journal
}

// Open takes part in deciding: this node holds its share of the groups as soon as
// it is their turn.
func Open(ctx context.Context, cfg Config) (*Strict, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.TTL == 0 {
		cfg.TTL = lease.DefaultTTL
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Lender == nil {
		cfg.Lender = alone{cfg.Engine}
	}
	s := &Strict{cfg: cfg, conn: cfg.Journal.Joined().Conn(), commits: newCommits()}
	for i := range s.groups {
		s.groups[i].name = lease.Group(i)
	}
	of, err := openBucket(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("strict limits: %w", err)
	}
	s.leases = lease.Hold(of, lease.Config{Names: lease.GroupNames(), Want: s.wants, Logger: cfg.Logger})
	s.life, s.stop = context.WithCancel(context.Background())
	s.running.Go(func() { s.keep(s.life) })
	s.running.Go(func() { s.commit(s.life) })
	return s, nil
}

// openBucket tries until ctx ends: while a cluster starts, a request may get no
// answer.
func openBucket(ctx context.Context, cfg Config) (*lease.Bucket, error) {
	joined := cfg.Journal.Joined()
	for {
		asking, cancel := context.WithTimeout(ctx, 3*time.Second)
		of, err := lease.Open(asking, joined.JetStream(), bucket, lease.Self{Node: cfg.Node, Origin: cfg.Journal.Origin()}, cfg.TTL, joined.Replicas(replicas))
		cancel()
		if err == nil {
			return of, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Close gives the groups to other nodes. Questions that wait are not answered.
func (s *Strict) Close(ctx context.Context) error {
	s.stop()
	s.running.Wait()
	return s.leases.Close(ctx)
}

// Group is the group of a key, 0 to lease.Groups-1.
func (s *Strict) Group(key string) int {
	return replication.Of(s.cfg.Engine).PartitionOf(key) % lease.Groups
}

// Stats returns the figures.
func (s *Strict) Stats() Stats {
	stats := Stats{
		Decided: s.stats.decided.Load(), Forwarded: s.stats.forwarded.Load(), Unanswered: s.stats.unanswered.Load(),
		Lost: s.stats.lost.Load(), Refused: s.stats.refused.Load(),
	}
	for i := range s.groups {
		if _, ok := s.holds(&s.groups[i]); ok {
			stats.Held++
		}
	}
	return stats
}

// wants says whether a lease is this node's turn, of those that are up.
func (s *Strict) wants(name string) bool {
	var up []string
	for _, o := range s.cfg.Journal.Origins() {
		switch {
		case o.Self:
			up = append(up, s.cfg.Node)
		case !o.Left && !o.Late:
			up = append(up, o.Node)
		}
	}
	return placement.Choose(up, name) == s.cfg.Node
}
