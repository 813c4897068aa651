package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// freshRound is those who wait for one round.
type freshRound struct {
	done   chan struct{}
	moment Moment
	err    error

	waiting int                // guarded by fresher.mu
	giveUp  context.CancelFunc // nil: not under way; guarded by fresher.mu
}

// fresher is the state of the goroutine that makes the rounds.
type fresher struct {
	kick    chan struct{}
	inbox   string // the number of a round follows
	number  uint64
	answers chan freshAnswer
	asked   chan *nats.Msg // by other nodes

	mu      sync.Mutex
	next    *freshRound   // of those who wait for the next round to begin; nil: nobody
	missing NotFreshError // of the round under way, or the last one
	ending  error         // why no round will begin any more
}

// Fresh returns when all hits are counted here that any node took before the call,
// and until when that is. If ctx ends before, the error is a *NotFreshError. A node
// alone has all hits, always.
func (j *Journal) Fresh(ctx context.Context) (Moment, error) {
	if !j.cfg.clustered() {
		return Moment{Now: j.engine.Now()}, nil
	}
	round := j.fresh.join()
	select {
	case <-round.done:
		return round.moment, round.err
	case <-ctx.Done():
		return Moment{}, j.fresh.leave(round, j.cfg.Join.Node)
	}
}

func (f *fresher) join() *freshRound {
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
func (f *fresher) leave(round *freshRound, self string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round.waiting--; round.waiting == 0 && round.giveUp != nil {
		round.giveUp()
	}
	missing := f.missing
	if len(missing.Missing) == 0 {
		missing = NotFreshError{[]string{self}, "it is busy with the questions before"}
	}
	return &missing
}

// take begins the next round; later callers of join wait for the one after it. nil:
// nobody waits for one.
func (f *fresher) take(giveUp context.CancelFunc) *freshRound {
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

func (f *fresher) finish(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = cause
	if f.next != nil {
		f.next.err = cause
		close(f.next.done)
	}
}

func (f *fresher) waitsFor(reason string, nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = NotFreshError{nodes, reason}
}

// runFresh makes the rounds, until ctx ends.
func (j *Journal) runFresh(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			j.fresh.finish(context.Cause(ctx))
			return
		case <-j.fresh.kick:
		}
		began := time.Now()
		j.runFreshRound(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(freshApart))):
		}
	}
}

func (j *Journal) runFreshRound(ctx context.Context) {
	within, giveUp := context.WithCancel(ctx)
	defer giveUp()
	round := j.fresh.take(giveUp)
	if round == nil {
		return
	}
	round.moment, round.err = j.freshRound(within)
	j.stats.fresh.Add(1)
	if round.err != nil {
		j.stats.notFresh.Add(1)
	}
	close(round.done)
}

// freshRound is one round. It ends without a result only when nobody waits for it,
// or the journal closes.
func (j *Journal) freshRound(ctx context.Context) (m Moment, err error) {
	f := &j.fresh
	f.number++
	own := j.waiters.JoinSpeaking()
	again := time.NewTicker(freshAgain)
	defer again.Stop()
	said := map[string]bool{} // by origin
	for ask, flushed := true, false; ; {
		if ask {
			if err := j.askFresh(f.number); err != nil {
				return m, err
			}
			ask = false
		}
		switch missing := j.freshMissing(said); {
		case !flushed:
			f.waitsFor("the journal has not acknowledged a flush", append(missing, j.cfg.Join.Node)...)
		case len(missing) > 0:
			f.waitsFor("they have not said that all they took is in the journal", missing...)
		case j.replica.Next() <= m.UpTo:
			f.waitsFor("this node has not yet followed the journal so far", j.cfg.Join.Node)
			j.highWater.Hear(m.UpTo)
			if err := j.awaitFollowed(ctx, m.UpTo); err != nil {
				return m, err
			}
			continue // and now knows all nodes
		default:
			m.Now = replica.Later(m.Now, j.engine.Now())
			return m, nil
		}
		var acknowledged <-chan struct{}
		if !flushed {
			acknowledged = own.Done
		}
		select {
		case <-acknowledged:
			if errors.Is(own.Err, groupcommit.ErrFull) { // the others have the same journal
				return m, &NotFreshError{[]string{j.cfg.Join.Node}, "the journal is full, and takes nothing before it is trimmed"}
			}
			if own.Err != nil {
				return m, own.Err
			}
			flushed, m.UpTo = true, max(m.UpTo, own.Last)
		case a := <-f.answers:
			if a.round == f.number { // else it is one of a round before
				said[a.origin] = true
				m.UpTo, m.Now = max(m.UpTo, a.upTo), replica.Later(m.Now, a.now)
			}
		case <-again.C:
			ask = true
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

// freshMissing are the nodes that may have taken hits and have not said up to where
// they are in the journal, by name. One that was restarted after it said so has taken
// the rest since.
func (j *Journal) freshMissing(said map[string]bool) (missing []string) {
	for _, o := range j.Origins() {
		if !o.Self && !o.Left && !said[o.Origin] {
			missing = append(missing, cmp.Or(o.Node, o.Origin))
		}
	}
	return slices.Compact(missing) // by name
}

// askFresh asks all nodes.
func (j *Journal) askFresh(number uint64) error {
	ask := binary.AppendUvarint(binary.LittleEndian.AppendUint64(nil, j.life.Origin), number)
	err := j.server.Conn().PublishRequest(freshSubject, fmt.Sprintf("%s.%d", j.fresh.inbox, number), ask)
	if err != nil && !errors.Is(err, nats.ErrConnectionReconnecting) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("ask the other nodes to flush: %w", err)
	}
	return nil
}
