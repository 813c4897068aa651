package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
)

// run sends the hits of the table every interval, and when it is woken, until ctx ends. It begins a batch once the batch before is
// settled or in doubt, so that hits add up meanwhile. At most as many batches as nodes are under way.
func (s *Sender) run(ctx context.Context) {
	defer close(s.ended)
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(s.opts.Every)
	defer ticker.Stop()
	slots := make(chan struct{}, s.client.nodes.count())
	var epoch uint64
	var queue []sumLine
	for {
		if len(queue) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-s.wake:
			}
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		if len(queue) == 0 {
			if epoch, queue = s.take(); len(queue) == 0 {
				<-slots
				continue
			}
		}
		lines := firstLines(queue)
		queue = queue[len(lines):]
		free := make(chan struct{})
		sending.Go(func() {
			s.send(ctx, epoch, lines, sync.OnceFunc(func() { close(free) }))
			<-slots
		})
		select {
		case <-ctx.Done():
			return
		case <-free:
		}
	}
}

// take returns the lines of the table, and their epoch.
func (s *Sender) take() (epoch uint64, lines []sumLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch = s.epoch
	s.epoch++
	if lines = s.table.Take(); len(lines) > 0 {
		s.open[epoch] = len(lines)
	} else {
		s.wakeWaiting()
	}
	return epoch, lines
}

// firstLines returns as many lines as servers take by default.
func firstLines(lines []sumLine) []sumLine {
	n, bytes := 0, 0
	for n < len(lines) && n < maxLines && bytes < maxBody {
		bytes += len(lines[n].Key) + 64 // names, numbers
		n++
	}
	return lines[:n:n]
}

// batch is lines that are sent together, under one idempotency key. Its body is the same in every attempt.
type batch struct {
	lines    []sumLine
	key      string
	repeated bool
}

func hitsOf(lines []sumLine) (n uint64) {
	for i := range lines {
		n += lines[i].N
	}
	return n
}

// send sends lines until it is known what became of them, or ctx ends. It calls free then, or once a batch is in
// doubt: other nodes may take the next batch meanwhile.
func (s *Sender) send(ctx context.Context, epoch uint64, lines []sumLine, free func()) {
	defer free()
	for most := len(lines); len(lines) > 0; {
		b := &batch{lines: lines[:min(most, len(lines))], key: rand.Text()}
		done, ok := s.deliver(ctx, b, free)
		switch {
		case !ok:
			return // closed: it is in doubt
		case done == 0:
			most = (len(b.lines) + 1) / 2
		default:
			s.table.Release(lines[:done])
			lines = lines[done:]
			s.mu.Lock()
			if s.open[epoch] -= done; s.open[epoch] == 0 {
				delete(s.open, epoch)
			}
			s.wakeWaiting()
			s.mu.Unlock()
		}
	}
}

// deliver repeats a batch until it is known what became of it, or of its first lines. It returns the number of these lines, or 0 if
// the batch is too large. ok is false if ctx ended.
//
// A batch that got no answer may have been counted. From then on only that node is asked.
func (s *Sender) deliver(ctx context.Context, b *batch, free func()) (done int, ok bool) {
	node, until := -1, time.Time{} // once the batch is in doubt: the only node to ask, and until when
	hurry := s.closing             // ends one pause when it is closed
	for asked, round := 1, 0; ; asked++ {
		at := node
		if node < 0 {
			at = s.client.nodes.first()
		}
		o := s.attempt(ctx, at, b)
		if o.end == settled {
			rest := o.done < len(b.lines)
			return o.done, !rest || s.pause(ctx, s.client.pause(0, o.refused), &hurry)
		}
		if o.end != tooLarge {
			s.client.nodes.failed(at)
		}
		switch {
		case ctx.Err() != nil:
			return 0, false
		case node >= 0 || o.end == inDoubt: // a later refusal says nothing about the attempts before it
			if node < 0 {
				node, until = at, time.Now().Add(s.opts.GiveUp)
				free()
			}
			s.report(at, "a batch of %d hits got no answer, and is sent there again: %w", hitsOf(b.lines), o.err)
		case o.end == tooLarge:
			return 0, true
		default:
			s.report(at, "hits wait: %w", o.err)
			if asked%s.client.nodes.count() != 0 {
				continue // another node, at once
			}
		}
		pause := s.client.pause(round, o.refused)
		round++
		if node >= 0 {
			pause = min(pause, time.Until(until))
		}
		switch {
		case !s.pause(ctx, pause, &hurry):
			return 0, false
		case node < 0 || time.Now().Before(until):
		case s.opts.AtLeastOnce:
			node = -1
			s.report(at, "of %d hits that it did not answer in %v nobody knows whether they count: they are sent again, also to other nodes", hitsOf(b.lines), s.opts.GiveUp)
		default:
			s.mu.Lock()
			s.stats.InDoubt += hitsOf(b.lines)
			s.mu.Unlock()
			s.report(at, "of %d hits that it did not answer in %v nobody knows whether they count: they are dropped", hitsOf(b.lines), s.opts.GiveUp)
			return len(b.lines), true
		}
	}
}

// pause waits for d, and reports whether ctx has not ended. Once *hurry is closed, one pause ends early.
func (s *Sender) pause(ctx context.Context, d time.Duration, hurry *chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-*hurry:
		*hurry = nil
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// end is what an attempt to send a batch came to.
type end int

const (
	inDoubt    end = iota // nobody knows whether it was counted
	notCounted            // this attempt counted nothing: any node may get the batch
	tooLarge              // nor did it, because the server takes smaller batches
	settled               // the server counted or rejected the first lines, done of them
)

// outcome is the end of an attempt, with its details.
type outcome struct {
	end
	done    int
	err     error
	refused *Error // has the pause that the server asks for
}

// attempt sends a batch to a node once, and notes what became of its hits.
func (s *Sender) attempt(ctx context.Context, at int, b *batch) (o outcome) {
	var body []byte
	for _, l := range b.lines {
		body = appendHit(body, Hit{Key: l.Key, N: l.N, At: time.Unix(l.Second, 0)})
	}
	r, err := s.client.hitsRequest(body, b.key)
	if err != nil {
		return outcome{end: notCounted, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	text, err := s.client.attempt(ctx, at, r)
	o = outcome{done: len(b.lines), err: err}
	var answer api.HitsAnswer
	unreadable := decode(text, &answer)
	switch {
	case err == nil && unreadable == nil:
		o.end = settled
	case err == nil:
		o.err = unreadable // not a Weir server, but maybe a proxy of one
	case neverSent(err):
		o.end = notCounted
	case !errors.As(err, &o.refused) || !o.refused.tookNothing():
	case o.refused.tooLarge() && len(b.lines) > 1:
		o.end = tooLarge
	case o.refused.temporary() || unreadable != nil || !o.refused.final(&answer):
		o.end = notCounted
	default:
		o.end = settled
	}
	var rejected uint64
	s.mu.Lock()
	if b.repeated {
		s.stats.Repeated++
	}
	b.repeated = true
	if s.failures[at] = o.err; o.end == settled {
		s.failures[at] = nil
		if from := answer.RetryFrom; from > 1 && from <= o.done {
			o.done, o.refused = from-1, &Error{Code: api.CodeOverloaded, After: time.Second}
		}
		sent := hitsOf(b.lines[:o.done])
		counted := min(answer.Counted, sent)
		late := min(answer.TooLate, sent-counted)
		rejected = sent - counted - late
		s.stats.Counted += counted
		s.stats.TooLate += late
		s.stats.Rejected += rejected
	}
	s.wakeWaiting()
	s.mu.Unlock()
	switch {
	case rejected == 0:
	case len(answer.Rejected) > 0:
		s.report(at, "%d hits were rejected, the first because %s (%s)", rejected, answer.Rejected[0].Message, answer.Rejected[0].Code)
	default:
		s.report(at, "%d hits were rejected: %w", rejected, o.err)
	}
	return o
}

// tooLarge reports whether the server takes smaller batches, and counted none of this one.
func (e *Error) tooLarge() bool {
	return e.Code == api.CodeTooManyLines || e.Code == api.CodeBodyTooLarge
}

// final reports whether the refusal is about the hits themselves, so that each further attempt would end in the same way.
// Roles and settings of servers may change.
func (e *Error) final(a *api.HitsAnswer) bool {
	return e.NothingCounted() || e.tooLarge() || e.Code == api.CodeInvalidKey || a.RejectedLines > 0
}

// wakeWaiting wakes the callers of Flush. The caller holds mu.
func (s *Sender) wakeWaiting() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// report passes to Notify why a node does not count hits.
func (s *Sender) report(at int, format string, args ...any) {
	if s.opts.Notify != nil {
		s.notify.Lock()
		defer s.notify.Unlock()
		s.opts.Notify(fmt.Errorf("%s: "+format, append([]any{s.address(at)}, args...)...))
	}
}
