package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Joined is the connection with the other nodes. It is the Journal's to close.
func (j *Journal) Joined() *transport.Node { return j.server }

// CatchUp returns when all is counted here that was acknowledged to any node before
// the call. It journals a flush of this node, be it empty, and waits until the
// journal was followed up to that. What comes after that flush was not acknowledged when CatchUp was called. Only for a node
// in a cluster.
func (j *Journal) CatchUp(ctx context.Context) error {
	return j.AwaitFlush(ctx, j.waiters.JoinSpeaking())
}

// NextFlush returns the group of the next flush, which has all that was counted before; even an empty one is written if evenEmpty says so.
func (j *Journal) NextFlush(evenEmpty bool) *concurrency.Group {
	if evenEmpty {
		return j.waiters.JoinSpeaking()
	}
	return j.waiters.Join()
}

// SyncFollowed is Sync, and in a cluster waits until this node has followed the journal up to there: it then knows which moves
// of topics count.
func (j *Journal) SyncFollowed(ctx context.Context) error {
	if j.others == nil {
		return j.Sync(ctx)
	}
	return j.AwaitFlush(ctx, j.waiters.Join())
}

// MayBegin returns why a topic of which nothing is known may not be read from its beginning: a node of --peers that has never joined may
// bring hits of it.
func (j *Journal) MayBegin() error {
	if joined, all := j.replica.Joined(), j.server.Peers(); joined < all {
		return fmt.Errorf("%d of %d nodes of --peers have joined, and one that has not may bring hits of the topic: start it, or leave it out of --peers", joined, all)
	}
	return nil
}

// Position is up to where a topic is counted, as far as the journal was followed; false: nothing is known of it.
func (j *Journal) Position(topic replication.RequestID) (p replication.Position, known bool) {
	return j.replica.Position(topic)
}

// HoldLease starts to keep a lease for this node, for the caller to close; nil: the node is alone, and needs none.
func (j *Journal) HoldLease(name string) *kv.LeaseHolder {
	if j.others == nil {
		return nil
	}
	return kv.HoldLease(j.restores.Claims.Leases, name, j.log)
}

// Claim journals that this node owns the limits of some partitions' groups from now on, and returns once the journal
// was followed up to that. Claimed then reports whether it came first. Only for a node in a cluster.
func (j *Journal) Claim(ctx context.Context, partitions []int) error {
	j.claims.mu.Lock()
	j.claims.next = append(j.claims.next, partitions...)
	j.claims.mu.Unlock()
	return j.AwaitFlush(ctx, j.waiters.JoinSpeaking())
}

// Claimed reports whether the last claim of a partition's group, as far as the journal was followed, is one of this
// life of the node. Its token is greater than the tokens of all claims before. It costs some ns.
func (j *Journal) Claimed(partition int) (token uint64, ok bool) {
	last := j.replica.ClaimOf(partition)
	return last.Message, last.By == j.own
}

// claims are those that the next flush has.
type claims struct {
	mu   sync.Mutex
	next []int // partitions
}

func (c *claims) take() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next
	c.next = nil
	return next
}

// AwaitFlush waits for a flush, and until this node has followed the journal up to it: then it knows all that other nodes wrote
// before. Only for a node in a cluster.
func (j *Journal) AwaitFlush(ctx context.Context, group *concurrency.Group) error {
	select {
	case <-group.Done:
	case <-ctx.Done():
		return fmt.Errorf("no flush was written: %w", context.Cause(ctx))
	}
	if group.Err != nil {
		return group.Err
	}
	return j.awaitFollowed(ctx, group.Last)
}

// awaitFollowed returns when all up to a message of the journal was applied.
func (j *Journal) awaitFollowed(ctx context.Context, last uint64) error {
	for {
		more := j.more.await()
		if j.replica.Next() > last {
			return nil
		}
		select {
		case <-more:
		case <-j.failed:
			return j.failure
		case <-ctx.Done():
			return fmt.Errorf("the journal is followed up to message %d, of %d: %w", j.replica.Next()-1, last, context.Cause(ctx))
		}
	}
}

// more wakes those who wait for more.
type more struct {
	mu sync.Mutex
	ch chan struct{} // nil: nobody waits
}

func (m *more) await() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ch == nil {
		m.ch = make(chan struct{})
	}
	return m.ch
}

func (m *more) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ch != nil {
		close(m.ch)
		m.ch = nil
	}
}

// Followed is the last message of the journal that was applied here.
func (j *Journal) Followed() uint64 { return j.replica.Next() - 1 }

const (
	// healEvery is how often a node looks whether its server is to be restarted, and
	// whether there is space for that.
	healEvery = time.Second

	// healPauseMost bounds the pause after a start that did not help; it doubles.
	healPauseMost = 30 * time.Second

	// healTime bounds one start.
	healTime = 30 * time.Second

	// missedMost is in how many looks in a row the replicas are not there when their directory is gone.
	missedMost = 3
)

// slowStop is how long a server that is restarted may take to stop before this node refuses hits, which would wait in memory.
const slowStop = 2 * time.Second

// errStopping is why hits are refused meanwhile.
var errStopping = errors.New("it does not stop yet")

// errNotStarted is why a process ends that can't have its server back.
var errNotStarted = errors.New("the embedded server gave up and could not be restarted: restart this process")

// runHealing restarts the embedded server of a clustered node when it has given up
// storing, as after one full disk, and there is space again. Nothing else would: it keeps
// its error for as long as it runs. Until then it goes on as a part of the network, and
// this node's flushes are stored by the others.
//
// It ends the process when the files are gone: see checkFiles.
//
// Who uses the connection notices a short break (join.Node.Start). The replica then takes
// what it lacks from the others; one that is damaged is quarantined, as at any start.
func (j *Journal) runHealing(ctx context.Context) {
	var failing time.Time // it has space, and does not start, since then
	unsettled := false    // it was stopped to be started, and is not known to be well since
	pause, next := healEvery, time.Time{}
	missed := 0 // in how many looks the replicas were not there
	concurrency.Every(ctx, healEvery, func() bool {
		if j.checkFiles() != nil {
			return false
		}
		if path, gone := j.replicasGone(); !gone {
			missed = 0
		} else if missed++; missed == missedMost {
			_ = j.gone(fmt.Errorf("data directory: %s was %w", path, checkpoint.ErrGone)) // Failed tells
			return false
		}
		if unsettled && j.others.stores.Well() { // after a start that failed too: it may only have been slow
			failing = time.Time{}
			j.offline.Store(nil)
			if j.endQuarantineAgain(ctx) {
				unsettled, pause = false, healEvery
			}
		}
		why, due := j.others.stores.Due(time.Now())
		if !due {
			return true
		}
		if err := checkpoint.TrySpace(j.cfg.Dir); err != nil {
			j.others.stores.Hinder(err.Error())
			return true
		}
		if time.Now().Before(next) {
			return true
		}
		j.log.Warn("journal: this node's replica does not store although the disk has space; restarting its embedded server", "error", why, "groups", j.server.Groups())
		err := j.startAnew(ctx)
		if ctx.Err() != nil {
			return false
		}
		unsettled, pause = true, min(2*pause, healPauseMost)
		if next = time.Now().Add(pause); err == nil {
			failing = time.Time{}
			j.offline.Store(nil)
			return true
		}
		j.offline.Store(&err)
		j.log.Error("journal: could not start the embedded server; will retry", "error", err)
		j.others.stores.Hinder(err.Error())
		if errors.Is(err, transport.ErrStuck) {
			j.fail(fmt.Errorf("journal: %w", err))
			return false
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > replica.GiveUpAfter {
			j.fail(fmt.Errorf("%w: %w", errNotStarted, err))
			return false
		}
		return true
	})
}

func (j *Journal) startAnew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	slow := time.AfterFunc(slowStop, func() { j.offline.Store(&errStopping) })
	err := j.server.Stop()
	if slow.Stop(); err != nil {
		return err
	}
	j.serverThere = &checkpoint.Presence{} // a start may quarantine them
	if err = j.server.Start(ctx); err != nil {
		return err
	}
	if err = j.noteServerFiles(); err != nil {
		return err
	}
	j.stats.revivals.Add(1)
	j.others.stores.Started(time.Now())
	return nil
}

// endQuarantineAgain is endQuarantine, for a server that was restarted and is current.
func (j *Journal) endQuarantineAgain(ctx context.Context) bool {
	err := j.server.Settled(ctx)
	if err == nil {
		err = j.noteServerFiles() // a start that took too long has not
	}
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn("journal: the restarted embedded server is not up to date yet; will check again", "error", err)
		}
		return false
	}
	j.log.Info("journal: this node's replica stores again and is up to date")
	return true
}

// Peers carries messages between what the nodes keep next to the journal, such as history.
type Peers struct{ conn *nats.Conn }

// Peers are all nodes of the journal.
func (j *Journal) Peers() Peers { return Peers{j.server.Conn()} }

// Publish sends a message to all nodes.
func (p Peers) Publish(subject string, data []byte) error { return p.conn.Publish(subject, data) }

// Serve calls f with each message of a subject until the connection closes, and sends its result as the reply; nil: nothing.
func (p Peers) Serve(subject string, f func(data []byte) (answer []byte)) error {
	_, err := p.conn.Subscribe(subject, func(msg *nats.Msg) {
		if answer := f(msg.Data); answer != nil {
			_ = msg.Respond(answer) // the other node asks again
		}
	})
	return err
}

// Request returns the answer of one node.
func (p Peers) Request(ctx context.Context, subject string, data []byte) (answer []byte, err error) {
	msg, err := p.conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}
