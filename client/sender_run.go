package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
)

// run sends what there is, every interval and when it is woken, until ctx ends.
func (s *Sender) run(ctx context.Context) {
	defer close(s.ended)
	defer s.repeats.Wait()
	timer := time.NewTimer(s.opts.Every)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.wake:
		}
		timer.Reset(s.sendAll(ctx))
	}
}

// sendAll sends until nothing is left or no node may be asked now. It returns when to try again.
func (s *Sender) sendAll(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		at, wait := s.nodeToAsk()
		if at < 0 {
			return min(wait, s.opts.Every)
		}
		b := s.next()
		if b == nil {
			break
		}
		o := s.send(ctx, at, b)
		switch {
		case ctx.Err() != nil && !o.settled:
			return s.opts.Every // closed: it is in doubt
		case o.settled || o.rest != nil:
			s.settle(at, b, o)
		case o.again:
			s.sendLater(at, b, o)
		default:
			s.repeat(ctx, at, b, o)
		}
	}
	return s.opts.Every
}

// nodeToAsk returns the node to send to, the last good one first; -1: none for the duration wait.
func (s *Sender) nodeToAsk() (at int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first := time.Now(), s.client.nodes.first()
	wait = s.opts.Every // at most: the goroutine that repeats a batch wakes this one
	for i := range s.nodes {
		at := s.client.nodes.from(first, i)
		switch n := &s.nodes[at]; {
		case n.doubt != nil:
		case now.Before(n.notUntil):
			wait = min(wait, n.notUntil.Sub(now))
		default:
			return at, 0
		}
	}
	return -1, max(wait, time.Millisecond)
}

// next returns the batch to send. While batches wait, it makes no new ones, so that hits continue to add up.
func (s *Sender) next() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		epoch := s.epoch
		s.epoch++ // before lines are taken: a flush that sees the new one waits for the next cut
		s.add(cutLines(epoch, s.table.Take()))
		if len(s.queue) == 0 {
			s.wakeWaiting()
			return nil
		}
	}
	b := s.queue[0]
	s.queue = s.queue[1:]
	return b
}

// add puts new batches before all others.
func (s *Sender) add(list []*batch) {
	for _, b := range list {
		s.open[b] = struct{}{}
	}
	s.queue = append(list, s.queue...)
}

// send is one attempt.
func (s *Sender) send(ctx context.Context, at int, b *batch) outcome {
	r, err := s.client.hitsRequest(b.body(nil), b.key)
	if err != nil {
		return outcome{again: true, err: err}
	}
	closing := s.closed.Load()
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if b.attempts++; b.attempts > 1 {
		s.mu.Lock()
		s.stats.Repeated++
		s.mu.Unlock()
	}
	o := b.judge(s.client.attempt(ctx, at, r))
	o.closing = closing
	return o
}

// settle ends a batch as its answer says. Lines that the server did not take become new batches.
func (s *Sender) settle(at int, b *batch, o outcome) {
	done := b.lines[:len(b.lines)-len(o.rest)]
	if o.settled {
		s.table.Release(done)
	}
	s.mu.Lock()
	delete(s.open, b)
	if o.rest != nil {
		s.add(parts(b, o))
	}
	var rejected uint64
	if o.settled {
		sent, counted := hitsOf(done), o.answer.Counted
		late := min(o.answer.TooLate, sent-min(counted, sent))
		rejected = sent - min(counted+late, sent)
		s.stats.Counted += min(counted, sent)
		s.stats.TooLate += late
		s.stats.Rejected += rejected
	}
	s.rest(at, o.refused)
	s.wakeWaiting()
	s.mu.Unlock()
	if rejected > 0 {
		s.tell(rejection(rejected, o))
	}
}

// parts returns the batches of the lines that are left of one. A batch that was too large is halved.
func parts(b *batch, o outcome) []*batch {
	if o.settled {
		return cutLines(b.epoch, o.rest)
	}
	half := len(o.rest) / 2
	return []*batch{newBatch(b.epoch, o.rest[:half:half]), newBatch(b.epoch, o.rest[half:])}
}

func rejection(hits uint64, o outcome) error {
	if len(o.answer.Rejected) > 0 {
		first := o.answer.Rejected[0]
		return fmt.Errorf("%d hits were rejected, the first because %s (%s)", hits, first.Message, first.Code)
	}
	return errors.Join(fmt.Errorf("%d hits were rejected", hits), o.err)
}

// rest records that a node works. It is asked again at once, unless it wants a pause.
func (s *Sender) rest(at int, refused *Error) {
	n := &s.nodes[at]
	n.failure, n.denied = nil, false
	if n.failures = 0; refused != nil && refused.After > 0 {
		n.notUntil = time.Now().Add(s.client.pause(0, refused))
	}
}

// sendLater puts back a batch that no node has counted. The node is paused; another is asked at once.
func (s *Sender) sendLater(at int, b *batch, o outcome) {
	s.mu.Lock()
	s.queue = append([]*batch{b}, s.queue...)
	s.pauseNode(at, o)
	switch n := &s.nodes[at]; {
	case o.refused == nil || !o.refused.denies():
	case s.closed.Load() && !o.closing: // Close was called meanwhile, and asks once more
		n.notUntil = time.Time{}
	default:
		n.denied = true
		s.wakeWaiting()
	}
	s.mu.Unlock()
	s.client.nodes.failed(at)
	s.tell(fmt.Errorf("%s: hits wait: %w", s.client.nodes.bases[at].Redacted(), o.err))
}

func (s *Sender) pauseNode(at int, o outcome) time.Duration {
	n := &s.nodes[at]
	n.failure, n.denied = o.err, false
	pause := s.client.pause(n.failures, o.refused)
	n.failures++
	n.notUntil = time.Now().Add(pause)
	return pause
}

// repeat sends a batch that may have been counted to its node again and again, in a goroutine of its own. There is at most one
// for a node. The other nodes take new hits.
func (s *Sender) repeat(ctx context.Context, at int, b *batch, o outcome) {
	s.mu.Lock()
	b.doubtful = time.Now()
	s.nodes[at].doubt = b
	s.mu.Unlock()
	s.repeats.Go(func() {
		for {
			s.tell(fmt.Errorf("%s: a batch of %d hits got no answer, and is sent there again: %w", s.client.nodes.bases[at].Redacted(), b.hits(), o.err))
			s.mu.Lock()
			pause := s.pauseNode(at, o)
			s.mu.Unlock()
			left := s.opts.GiveUp - time.Since(b.doubtful)
			_ = concurrency.Sleep(ctx, min(pause, max(left, 0))) // the next attempt says that ctx ended
			if ctx.Err() != nil {
				return
			}
			if left <= pause {
				s.giveUp(at, b)
				return
			}
			// A refusal says nothing about the attempts before it.
			if o = s.send(ctx, at, b); o.settled {
				s.settle(at, b, o)
				s.endDoubt(at)
				return
			}
		}
	})
}

// giveUp drops a batch that may have been counted, or sends it elsewhere.
func (s *Sender) giveUp(at int, b *batch) {
	err := fmt.Errorf("%s: of %d hits that it did not answer in %v nobody knows whether they count", s.client.nodes.bases[at].Redacted(), b.hits(), s.opts.GiveUp)
	s.mu.Lock()
	if s.opts.AtLeastOnce {
		err = fmt.Errorf("%w: they are sent again, also to other nodes", err)
		s.queue = append([]*batch{b}, s.queue...)
	} else {
		err = fmt.Errorf("%w: they are dropped", err)
		delete(s.open, b)
		s.stats.InDoubt += b.hits()
		s.table.Release(b.lines)
		s.wakeWaiting()
	}
	s.mu.Unlock()
	s.endDoubt(at)
	s.tell(err)
}

// endDoubt lets a node take other batches.
func (s *Sender) endDoubt(at int) {
	s.mu.Lock()
	s.nodes[at].doubt = nil
	s.mu.Unlock()
	s.wake.Raise()
}

// wakeWaiting wakes the callers that wait for a batch to settle, or for lines to be taken.
func (s *Sender) wakeWaiting() {
	close(s.changed)
	s.changed = make(chan struct{})
}
