package query

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/internal/wire"
)

const (
	// maxUnderWay is how many requests of one class a node may have at once. With two, it answers one while the other is on
	// the wire.
	maxUnderWay = 2

	// breakerTime is for how long a node that did not answer is asked after all others.
	breakerTime = time.Second

	// maxPeers is how many nodes without a request are remembered.
	maxPeers = 256
)

// pendingGroup is some questions to one node, until all have an answer or an error.
type pendingGroup struct {
	left atomic.Int32
	gone atomic.Bool // no caller waits any more
	done chan struct{}
	each []*pending
}

// pending is one question of a pendingGroup. After done it has an answer or an error.
type pending struct {
	group   *pendingGroup
	q       *question
	encoded []byte
	sent    bool // or it waited in vain
	answer  answer
	fresh   api.Freshness
	err     error
}

func (a *pending) end() {
	if a.group.left.Add(-1) == 0 {
		close(a.group.done)
	}
}

// peer is another node.
type peer struct {
	node   string
	queues [classes]peerQueue
}

// peerQueue has the waiting questions of one class to one node.
type peerQueue struct {
	openUntil atomic.Int64 // the circuit breaker: Unix ns until when other nodes are asked first

	mu       sync.Mutex
	waiting  []*pending
	underWay int
}

func (p *peer) breakerOpen(c class, now time.Time) bool {
	// A node that does not answer quick questions does not scan either.
	return p.queues[c].openUntil.Load() > now.UnixNano() || c == scan && p.queues[quick].openUntil.Load() > now.UnixNano()
}

func (p *peer) idle() bool {
	for i := range p.queues {
		l := &p.queues[i]
		l.mu.Lock()
		busy := l.underWay > 0 || len(l.waiting) > 0
		l.mu.Unlock()
		if busy {
			return false
		}
	}
	return true
}

// peers are the other nodes, by name.
type peers struct {
	mu   sync.Mutex
	list map[string]*peer
}

func (ps *peers) get(node string) *peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.list[node]
	if p != nil {
		return p
	}
	if len(ps.list) >= maxPeers {
		for name, old := range ps.list {
			if old.idle() {
				delete(ps.list, name)
			}
		}
	}
	p = &peer{node: node}
	ps.list[node] = p
	return p
}

func (ps *peers) breakerOpen(node string, c class) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.list[node]
	return p != nil && p.breakerOpen(c, time.Now())
}

// askNode asks a node questions of one class, and waits for all answers. It returns nil if ctx ended before: then no answer is
// known.
func (r *Router) askNode(ctx context.Context, node string, questions []*question) []*pending {
	c := questions[0].class()
	group := &pendingGroup{done: make(chan struct{}), each: make([]*pending, len(questions))}
	group.left.Store(int32(len(questions)))
	for i, q := range questions {
		group.each[i] = &pending{group: group, q: q, encoded: q.append(nil)}
	}
	r.stats.asked.Add(uint64(len(questions)))
	p := r.peers.get(node)
	l := &p.queues[c]
	l.mu.Lock()
	l.waiting = append(l.waiting, group.each...)
	start := l.underWay < maxUnderWay
	if start {
		l.underWay++
	}
	l.mu.Unlock()
	if start && !r.goes(func() { r.run(p, c) }) {
		l.mu.Lock()
		l.underWay--
		l.mu.Unlock()
		return nil
	}
	select {
	case <-group.done:
		return group.each
	case <-ctx.Done():
		group.gone.Store(true)
		return nil
	}
}

// run sends the questions in a queue, request after request, until it is empty.
func (r *Router) run(p *peer, c class) {
	l := &p.queues[c]
	for {
		batch := l.take(c)
		if batch == nil {
			return
		}
		answers, fresh, err := r.send(p.node, c, batch)
		for i, a := range batch {
			if a.err = err; err == nil {
				a.answer, a.fresh = answers[i], fresh
			}
		}
		if err != nil {
			batch = append(batch, r.fail(p, c, err)...)
		}
		for _, a := range batch {
			a.end()
		}
	}
}

// take returns the questions of the next request. nil means that there are none, and ends the run.
func (l *peerQueue) take(c class) []*pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(a *pending) bool { return a.group.gone.Load() })
	n, bytes := 0, 0
	for n < len(l.waiting) && n < c.most() {
		bytes += len(l.waiting[n].encoded) + 2
		if n > 0 && bytes > maxMessage {
			break
		}
		n++
	}
	if n == 0 {
		l.underWay--
		l.waiting = nil
		return nil
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// fail opens a node's circuit breaker, and returns the questions that waited for it: other nodes may be asked.
func (r *Router) fail(p *peer, c class, err error) []*pending {
	r.stats.failed.Add(1)
	if r.ctx.Err() == nil {
		now := time.Now()
		if before := p.queues[c].openUntil.Swap(now.Add(breakerTime).UnixNano()); before < now.UnixNano() {
			r.log.Warn("a node does not answer queries about its partitions; asking other nodes first for one second", "node", p.node, "error", err)
		}
	}
	l := &p.queues[c]
	l.mu.Lock()
	defer l.mu.Unlock()
	waited := l.waiting
	l.waiting = nil
	for _, a := range waited {
		a.err = err
	}
	return waited
}

func (r *Router) send(node string, c class, batch []*pending) ([]answer, api.Freshness, error) {
	within := r.attempt(c)
	b := appendRequest(nil, c, r.partitions, within, len(batch))
	questions := make([]*question, len(batch))
	var call *tracing.Span
	for i, a := range batch {
		if call != nil {
			call.Link(a.q.span)
		} else if call = a.q.span.Call("query at node"); call != nil {
			defer call.End()
			call.Set("weir.node", node)
		}
		a.sent = true
		b = wire.AppendText(b, string(a.encoded))
		questions[i] = a.q
	}
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	r.stats.requests.Add(1)
	text, err := r.inbox.request(ctx, &nats.Msg{Subject: subject(node), Data: b, Header: call.Header()})
	if err != nil {
		call.Fail("no answer")
		if errors.Is(err, context.DeadlineExceeded) {
			err = errSilent
		}
		return nil, api.Freshness{}, err
	}
	return readAnswers(text, questions, r.partitions)
}

var errSilent = errors.New("no answer in time")
