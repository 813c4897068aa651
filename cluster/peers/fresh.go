package peers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/journal/groupcommit"
	"github.com/weir-counter/weir/journal/replica"
)

// A fresh answer has all hits that any node took before its question came. What was
// acknowledged in the journal, CatchUp would find; what a node took and has not yet
// flushed, it alone knows. So all nodes are asked to flush now, and each says up to
// which message of the journal its hits then are (fresh_answer.go). This node
// journals an empty flush meanwhile, after which it knows every node there was, and
// follows the journal up to the last of all these messages. A node that is known and
// says nothing may have taken hits: then there is no fresh answer.
//
// Questions share a round. One that comes while a round is under way waits for the
// next: that round's messages may have been sent before its hit.

const (
	// freshAgain is how often those are asked again who have not answered: a
	// connection may have been made again.
	freshAgain = 250 * time.Millisecond

	// freshApart is the least time between the beginnings of two rounds.
	freshApart = 5 * time.Millisecond
)

// Moment is a state of the journal that has all hits until a question came.
type Moment struct {
	UpTo uint64    // the last message of the journal that has some of them; 0: there is none but this node
	Now  time.Time // the latest of the nodes' clocks, as the engine means it: no hit was taken at a later second
}

// NotFreshError says that a fresh answer is not to be had in time.
type NotFreshError struct {
	Missing []string // nodes of which it is not known whether all their hits are here, by name
	Reason  string   // what was waited for
}

func (e *NotFreshError) Error() string {
	return fmt.Sprintf("newer hits of %s may be missing: %s", strings.Join(e.Missing, ", "), e.Reason)
}

// FreshnessConfig is what Freshness is made of.
type FreshnessConfig struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Origin uint64           // this node's
	Node   string           // and its name
	Now    func() time.Time // as the engine means it

	Flushes   *groupcommit.Queue
	HighWater *HighWater

	Origins func() []replica.OriginStatus // the nodes that are known, by name
	Next    func() uint64                 // the first message of the journal that was not followed yet
	// AwaitFollowed returns when all up to a message of the journal was followed.
	AwaitFollowed func(ctx context.Context, last uint64) error
}

// Freshness makes rounds for fresh answers of this node, and flushes for those of others.
type Freshness struct {
	FreshnessConfig

	kick    chan struct{}
	inbox   string // the number of a round follows
	number  uint64 // of the last round
	answers chan freshAnswer
	asked   chan *nats.Msg // by other nodes

	mu      sync.Mutex
	next    *freshRound   // of those who wait for the next round to begin; nil: nobody
	missing NotFreshError // of the round under way, or the last one
	ending  error         // why no round will begin any more

	rounds, failed atomic.Uint64
}

// freshRound is those who wait for one round.
type freshRound struct {
	done   chan struct{}
	moment Moment
	err    error

	waiting int                // guarded by Freshness.mu
	giveUp  context.CancelFunc // nil: not under way; guarded by Freshness.mu
}

// NewFreshness returns one whose loops, Run and RunAnswers, are the caller's to run.
func NewFreshness(cfg FreshnessConfig) *Freshness {
	return &Freshness{
		FreshnessConfig: cfg, kick: make(chan struct{}, 1), inbox: cfg.Conn.NewInbox(),
		answers: make(chan freshAnswer, maxFreshAsked), asked: make(chan *nats.Msg, maxFreshAsked),
	}
}

// Rounds is how many rounds were made, and how many of these ended without a fresh answer.
func (f *Freshness) Rounds() (all, failed uint64) { return f.rounds.Load(), f.failed.Load() }

// Await returns when all hits are counted here that any node took before the call,
// and until when that is. If ctx ends before, the error is a *NotFreshError.
func (f *Freshness) Await(ctx context.Context) (Moment, error) {
	round := f.join()
	select {
	case <-round.done:
		return round.moment, round.err
	case <-ctx.Done():
		return Moment{}, f.leave(round)
	}
}

func (f *Freshness) join() *freshRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &freshRound{done: make(chan struct{})}
		if f.ending != nil {
			f.next.err = f.ending
			close(f.next.done)
		}
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
	f.next.waiting++
	return f.next
}

// leave ends a round that nobody waits for any more, and says whom it waited for.
func (f *Freshness) leave(round *freshRound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round.waiting--; round.waiting == 0 && round.giveUp != nil {
		round.giveUp()
	}
	missing := f.missing
	if len(missing.Missing) == 0 {
		missing = NotFreshError{[]string{f.Node}, "it is busy with the questions before"}
	}
	return &missing
}

// take begins the next round; later callers of join wait for the one after it. nil:
// nobody waits for one.
func (f *Freshness) take(giveUp context.CancelFunc) *freshRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	round := f.next
	f.next, f.missing = nil, NotFreshError{}
	if round == nil || round.waiting == 0 {
		return nil
	}
	round.giveUp = giveUp
	return round
}

func (f *Freshness) finish(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = cause
	if f.next != nil {
		f.next.err = cause
		close(f.next.done)
	}
}

func (f *Freshness) waitsFor(reason string, nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = NotFreshError{nodes, reason}
}
