package journal

import (
	"context"
	"errors"
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

// followEvery is how often the follower looks for a new message, once it has all.
const followEvery = 20 * time.Millisecond

// runFollower applies the messages after the last one, until ctx is done. It asks
// for them by number, which any replica answers, this node's own first of all:
// a consumer lives on one server and is silent for ten seconds when that one
// dies. While nobody answers it asks less often; what was missed comes then.
func (j *Journal) runFollower(ctx context.Context) {
	for wait := followEvery; ctx.Err() == nil; {
		err := j.followNext(ctx)
		switch {
		case err == nil:
			wait = 0
		case errors.Is(err, jetstream.ErrMsgNotFound):
			wait = followEvery
		default:
			if wait < retryMost && ctx.Err() == nil {
				j.log.Warn("journal: following the other nodes is interrupted, and tried again", "error", err)
			}
			wait = min(2*max(wait, followEvery), retryMost)
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}

// followNext applies the next message, or returns ErrMsgNotFound.
func (j *Journal) followNext(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, oneAsk)
	defer cancel()
	sequence, data, err := j.store.next(asking, j.follower.next())
	if err != nil {
		return err
	}
	return j.followOne(ctx, sequence, data)
}

// next is the sequence that comes after what was applied.
func (f *follower) next() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.audit.stream + 1
}

// followOne applies the journal's message of a sequence, and those before it that
// did not come.
func (j *Journal) followOne(ctx context.Context, sequence uint64, data []byte) error {
	f := &j.follower
	next := f.next()
	if next < sequence {
		if err := j.checkTrimmed(ctx, next); err != nil {
			return err
		}
	}
	for ; next < sequence; next++ {
		var skipped []byte
		err := patiently(ctx, func(ctx context.Context) (err error) {
			skipped, err = j.store.get(ctx, next)
			return err
		})
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
