package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// ask asks one question.
func (r *Router) ask(ctx context.Context, q *question) (answer, api.Freshness, error) {
	s := r.start(q)
	if s.flight == nil {
		return s.answer, s.fresh, s.err
	}
	if s.isNew {
		r.begin([]*flight{s.flight})
	}
	if err := s.flight.wait(ctx); err != nil {
		return answer{}, api.Freshness{}, err
	}
	return s.flight.answer, s.flight.fresh, nil
}

// started is what becomes of a question: this node's answer, an error, or a flight,
// which is to begin if it is new.
type started struct {
	answer answer
	fresh  api.Freshness
	err    error

	flight *flight
	isNew  bool
}

// start lets the own engine answer what it holds. It also is who finds out what is
// wrong with a question, so that none is sent that another engine would refuse.
func (r *Router) start(q *question) (s started) {
	held := r.holds(q)
	if !held {
		if s.flight = r.single.find(q); s.flight != nil {
			return s
		}
	}
	own := *q
	if q.wide() && !held {
		own.in = replication.NewPartitionSet(r.partitions) // none: only to be checked
	}
	s.fresh = r.own() // before what it is said of
	s.answer = answerOf(r.engine, &own)
	switch {
	case s.answer.err == nil && own.in == nil:
		return s
	case s.answer.err != nil && !s.answer.notHeld():
		return started{err: s.answer.err}
	}
	s = started{}
	s.flight, s.isNew, s.err = r.single.begin(q)
	return s
}

// holds tells whether all that a question is about is held here.
func (r *Router) holds(q *question) bool {
	if q.wide() {
		return r.engine.HeldPartitions().Len() == r.partitions
	}
	return r.engine.Holds(r.engine.PartitionOf(q.keyed()))
}

// begin sends flights on their way: those of single keys together, each of all keys
// by itself. They go on if who asked goes away.
func (r *Router) begin(flights []*flight) {
	var keyed []*flight // of one class: only counts come together
	for _, f := range flights {
		if f.q.wide() {
			r.launch([]*flight{f}, func(ctx context.Context) { r.scatterGather(ctx, f) })
		} else {
			keyed = append(keyed, f)
		}
	}
	if len(keyed) > 0 {
		r.launch(keyed, func(ctx context.Context) { r.retryHolders(ctx, keyed) })
	}
}

func (r *Router) launch(flights []*flight, run func(ctx context.Context)) {
	if r.goes(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.deadline(flights[0].q.class()))
		defer cancel()
		run(ctx)
	}) {
		return
	}
	for _, f := range flights {
		f.err = errClosed
		r.single.finish(f)
	}
}

var errClosed = &engine.Error{Code: engine.CodeClosed, Message: "this node is stopping: ask another"}

// pause is between two rounds in which nobody answered: partitions may be on their
// way from one node to another.
const pause = 25 * time.Millisecond

// retryHolders asks the holders of single keys, round after round, until each flight
// has its answer or ctx ends. All flights are of one class; those to one node go together.
func (r *Router) retryHolders(ctx context.Context, flights []*flight) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for len(flights) > 0 {
		to, stuck := r.nextOf(flights)
		for node, group := range to {
			asking.Go(func() { r.retryHolders(ctx, r.askGroup(ctx, node, group)) })
		}
		flights = r.stuck(ctx, stuck)
	}
}

// nextOf finds whom to ask next. What came to be held here meanwhile is answered.
func (r *Router) nextOf(flights []*flight) (to map[string][]*flight, stuck []*flight) {
	to = map[string][]*flight{}
	for _, f := range flights {
		if r.answersItself(f) {
			continue
		}
		if node, ok := r.next(f); ok {
			f.asked, f.empty = append(f.asked, node), false
			to[node] = append(to[node], f)
		} else {
			stuck = append(stuck, f)
		}
	}
	return to, stuck
}

func (r *Router) answersItself(f *flight) bool {
	if !r.engine.Holds(r.engine.PartitionOf(f.q.keyed())) {
		return false
	}
	fresh := r.own()
	a := answerOf(r.engine, &f.q)
	if a.notHeld() {
		return false // it was let go just now
	}
	r.finish(f, a, fresh)
	return true
}

// next is the best holder that was not asked in this round, one whose circuit breaker is open only if
// there is no other.
func (r *Router) next(f *flight) (string, bool) {
	broken := ""
	for _, node := range r.cfg.Holders(r.engine.PartitionOf(f.q.keyed())) {
		switch {
		case node == r.cfg.Self || slices.Contains(f.asked, node):
		case !r.peers.breakerOpen(node, f.q.class()):
			return node, true
		case broken == "":
			broken = node
		}
	}
	return broken, broken != ""
}

// askGroup puts flights to one node, and returns those that it did not answer.
func (r *Router) askGroup(ctx context.Context, node string, group []*flight) (left []*flight) {
	questions := make([]*question, len(group))
	for i, f := range group {
		if c, ok := f.q.kind.(change); ok {
			c.expires(r.until(ctx).UnixMilli())
		}
		questions[i] = &f.q
	}
	each, ok := r.askNode(ctx, node, group[0].q.class(), questions)
	for i, f := range group {
		switch {
		case !ok:
			f.trail.out(node)
		case each[i].err != nil:
			f.trail.add(node, each[i].err)
		case each[i].answer.elsewhere():
			f.trail.add(node, each[i].answer.err)
		default:
			r.finish(f, each[i].answer, each[i].fresh)
			continue
		}
		left = append(left, f)
	}
	if ok {
		return left
	}
	r.giveUp(left)
	return nil
}

// until is when a change that is sent now is no longer waited for.
func (r *Router) until(ctx context.Context) time.Time {
	until := time.Now().Add(r.attempt(quick))
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		return end
	}
	return until
}

// elsewhere tells whether another node should be asked.
func (a *answer) elsewhere() bool {
	return a.notHeld() || a.err != nil && (a.err.Code == engine.CodeClosed || a.err.Code == engine.CodeNotFresh)
}

// stuck waits a moment for flights that all holders failed, and begins their next
// round. Where there was no holder twice, or ctx ended, they are given up.
func (r *Router) stuck(ctx context.Context, flights []*flight) (again []*flight) {
	if len(flights) == 0 {
		return nil
	}
	var over []*flight
	for _, f := range flights {
		nobody := len(f.asked) == 0
		if nobody && f.empty {
			over = append(over, f)
			continue
		}
		f.asked, f.empty = nil, nobody
		again = append(again, f)
	}
	r.giveUp(over)
	if len(again) > 0 && !sleep(ctx, pause) {
		r.giveUp(again)
		return nil
	}
	return again
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveUp ends flights that nobody answers.
func (r *Router) giveUp(flights []*flight) {
	for _, f := range flights {
		r.abandon(f, f.trail.failed(r.engine.PartitionOf(f.q.keyed())))
	}
}

func (r *Router) abandon(f *flight, err *engine.Error) {
	if r.ctx.Err() != nil {
		err = errClosed
	}
	r.stats.unanswered.Add(1)
	f.err = err
	r.end(f)
}

// finish gives a flight its answer, which may be an error of an engine.
func (r *Router) finish(f *flight, a answer, fresh api.Freshness) {
	f.answer, f.fresh = a, fresh
	if a.err != nil {
		f.err = a.err
	}
	r.end(f)
}

func (r *Router) end(f *flight) {
	if c, ok := f.q.kind.(change); ok { // also one that may have been done without our knowing
		r.single.forget(c.keyed())
	}
	r.single.finish(f)
}

// inbox is where the answers of other nodes arrive, each in one part or several.
// NATS' own requests take one message only.
type inbox struct {
	conn   *nats.Conn
	prefix string // of the reply subjects
	sub    *nats.Subscription
	last   atomic.Uint64

	mu      sync.Mutex
	waiting map[string]*reply // by the end of its subject; as many as requests are under way
}

// reply is what came of one so far.
type reply struct {
	next uint64 // the part that comes
	text []byte
	done chan error // one value
}

var errNoSubscriber = errors.New("no subscriber")

// maxArriving bounds the answers that wait to be put together.
const maxArriving, maxArrivingBytes = 16 << 10, 256 << 20

func newInbox(conn *nats.Conn) (*inbox, error) {
	in := &inbox{conn: conn, prefix: conn.NewInbox() + ".", waiting: map[string]*reply{}}
	sub, err := conn.Subscribe(in.prefix+"*", in.arrive)
	if err == nil {
		err = sub.SetPendingLimits(maxArriving, maxArrivingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for answers: %w", err)
	}
	in.sub = sub
	return in, nil
}

// request sends one, and returns the text of its answer, all parts.
func (in *inbox) request(ctx context.Context, to string, data []byte) ([]byte, error) {
	id, rep := strconv.FormatUint(in.last.Add(1), 36), &reply{done: make(chan error, 1)}
	in.mu.Lock()
	in.waiting[id] = rep
	in.mu.Unlock()
	defer in.forget(id)
	if err := in.conn.PublishRequest(to, in.prefix+id, data); err != nil {
		return nil, err
	}
	select {
	case err := <-rep.done:
		return rep.text, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (in *inbox) forget(id string) *reply {
	in.mu.Lock()
	defer in.mu.Unlock()
	rep := in.waiting[id]
	delete(in.waiting, id)
	return rep
}

// arrive takes one part. One that nobody waits for any more is dropped.
func (in *inbox) arrive(msg *nats.Msg) {
	id := strings.TrimPrefix(msg.Subject, in.prefix)
	in.mu.Lock()
	rep := in.waiting[id]
	in.mu.Unlock()
	if rep == nil {
		return
	}
	over, err := rep.add(msg)
	if over && in.forget(id) != nil {
		rep.done <- err
	}
}

func (rep *reply) add(msg *nats.Msg) (over bool, err error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return true, errNoSubscriber
	}
	p, err := readPart(msg.Data)
	switch {
	case err != nil:
		return true, err
	case p.part != rep.next || len(rep.text)+len(p.bytes) > maxAnswers:
		return true, errWire
	}
	rep.next++
	rep.text = append(rep.text, p.bytes...)
	return p.last, nil
}

// close takes no more answers. An error is that of a connection that is closed.
func (in *inbox) close() { _ = in.sub.Unsubscribe() }
