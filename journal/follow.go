package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// follower applies what other nodes journal, from the journal's end at Open on.
type follower struct {
	// mu keeps the flusher from taking a partition's state while a batch of it is
	// applied and not yet in audit: a snapshot would have it twice.
	mu    sync.Mutex
	audit *auditor
	told  int // findings that were logged
}

// runFollower follows the journal until ctx is done. When the connection or the
// stream's leader is away it tries again; what was missed comes then.
func (j *Journal) runFollower(ctx context.Context) {
	for wait := retryFirst; ctx.Err() == nil; wait = min(2*wait, retryMost) {
		began := time.Now()
		if err := j.follow(ctx); err != nil && ctx.Err() == nil {
			j.log.Warn("journal: following the other nodes is interrupted, and tried again", "error", err)
		}
		if time.Since(began) > retryMost {
			wait = retryFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// silence is how long the journal may have no message before the follower looks
// whether its consumer is still there: every node has a heartbeat each second.
const silence = 5 * time.Second

// follow applies the messages after the last one, until an error.
func (j *Journal) follow(ctx context.Context) error {
	j.follower.mu.Lock()
	next := j.follower.audit.stream + 1
	j.follower.mu.Unlock()
	if err := j.checkTrimmed(ctx, next); err != nil {
		return err
	}
	consumer, err := j.store.at.Load().flushes.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   next,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(fetchMessages))
	if err != nil {
		return err
	}
	defer messages.Stop()
	quiet := time.AfterFunc(silence, messages.Stop)
	defer quiet.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		msg, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) && ctx.Err() == nil {
			return fmt.Errorf("no message for %v", silence)
		}
		if err != nil {
			return err
		}
		quiet.Reset(silence)
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := j.followOne(ctx, meta.Sequence.Stream, msg.Data()); err != nil {
			return err
		}
	}
}

// followOne applies the journal's message of a sequence, and those before it that
// did not come.
func (j *Journal) followOne(ctx context.Context, sequence uint64, data []byte) error {
	f := &j.follower
	f.mu.Lock()
	next := f.audit.stream + 1
	f.mu.Unlock()
	if next < sequence {
		if err := j.checkTrimmed(ctx, next); err != nil {
			return err
		}
	}
	for ; next < sequence; next++ {
		skipped, err := j.store.get(ctx, next)
		if err == nil {
			err = j.applyOne(ctx, next, skipped)
		} else if errors.Is(err, jetstream.ErrMsgNotFound) {
			j.stats.holes.Add(1)
			j.log.Error("journal: a message is lost; its origin is asked", "message", next)
			f.mu.Lock()
			f.audit.skip(next + 1)
			f.mu.Unlock()
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return j.applyOne(ctx, sequence, data)
}

// errLeftBehind is why a node must start again.
var errLeftBehind = errors.New("the journal was trimmed beyond what this node has applied: it must be restarted, and will begin with the newest snapshots")

// checkTrimmed fails the journal if a message that is needed was trimmed.
func (j *Journal) checkTrimmed(ctx context.Context, next uint64) error {
	first, _, _, err := j.store.bounds(ctx)
	if err == nil && first > next {
		err = errLeftBehind
		j.fail(err)
	}
	return err
}

func (j *Journal) applyOne(ctx context.Context, sequence uint64, data []byte) error {
	f := &j.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	if sequence <= f.audit.stream {
		return nil // it came by itself meanwhile
	}
	j.repair(ctx, f.audit, data)
	if err := f.audit.apply(j.engine, sequence, data); err != nil {
		return err
	}
	j.tellFindings()
	if p, err := decodeHead(data); err == nil && p.origin != j.life.origin {
		f.audit.lane(p.origin).heard = time.Now()
		j.snapshots.grown.Add(int64(len(data)))
		j.snapshots.kept.Add(int64(len(data)))
	}
	return nil
}

// maxFindings bounds what is kept of them; all are counted.
const maxFindings = 1000

// tellFindings logs what the audit found since, which is an alarm: some node's
// hits are not here. The caller holds f.mu.
func (j *Journal) tellFindings() {
	f := &j.follower
	f.audit.reportMissing()
	for _, found := range f.audit.findings[f.told:] {
		j.stats.divergences.Add(1)
		j.log.Error("journal: this node misses hits of another", "finding", found.String())
	}
	if len(f.audit.findings) > maxFindings {
		f.audit.findings = f.audit.findings[:maxFindings]
	}
	f.told = len(f.audit.findings)
}
