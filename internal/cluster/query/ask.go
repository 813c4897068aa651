package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/tracing"
)

func (r *Router) ask(ctx context.Context, q *question) (result, api.Freshness, error) {
	q.span = tracing.From(ctx)
	s := r.start(q)
	if s.flight == nil {
		return s.result, s.fresh, s.err
	}
	if s.isNew {
		r.begin([]*flight{s.flight})
	}
	if err := r.wait(ctx, s.flight); err != nil {
		return nil, api.Freshness{}, err
	}
	return s.flight.answer.result, s.flight.fresh, nil
}

// wait blocks until the answer, or until ctx ends. A holder that was behind until then is the reason, not the time.
func (r *Router) wait(ctx context.Context, f *flight) error {
	err := f.wait(ctx)
	if f.q.upTo == 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.trail) == 0 {
		return &engine.Error{Code: api.CodeNotFresh, Field: "fresh", Message: "the node that holds the key did not answer in time: retry, or use a longer fresh"}
	}
	return r.unanswered(f)
}

// started is what becomes of a question: this node's answer, an error, or a flight, which must begin if it is new.
type started struct {
	result result
	fresh  api.Freshness
	err    error

	flight *flight
	isNew  bool
}

// start lets the own engine answer what it holds. It also finds what is wrong with a question, so that none is sent that
// another engine would refuse.
func (r *Router) start(q *question) (s started) {
	held := r.holds(q)
	if !held {
		if s.flight = r.single.find(q); s.flight != nil {
			return s
		}
	}
	own := *q
	if q.wide() && !held {
		own.in = replication.NewPartitionSet(r.partitions) // none: it is only checked
	}
	s.fresh = r.own() // before the answer that it describes
	a := answerOf(r.engine, &own)
	switch {
	case a.err == nil && own.in == nil:
		s.result = a.result
		return s
	case a.err != nil && !a.notHeld():
		return started{err: a.err}
	}
	s = started{}
	s.flight, s.isNew, s.err = r.single.begin(q)
	return s
}

// holds reports whether all that a question is about is held here.
func (r *Router) holds(q *question) bool {
	if q.wide() {
		return r.engine.HeldPartitions().Len() == r.partitions
	}
	return r.engine.Keyspace().Holds(r.engine.Keyspace().PartitionOf(q.keyed()))
}

// begin starts flights: single keys together, each wide question by itself. They continue if their callers leave.
func (r *Router) begin(flights []*flight) {
	var keyed []*flight // only counts, which have one class, come together
	for _, f := range flights {
		if f.q.wide() {
			f.rest = all(r.partitions)
			r.launch([]*flight{f})
		} else {
			keyed = append(keyed, f)
		}
	}
	if len(keyed) > 0 {
		r.launch(keyed)
	}
}

func (r *Router) launch(flights []*flight) {
	if r.goes(func() {
		within := r.deadline(flights[0].q.class())
		if flights[0].q.upTo > 0 {
			within = r.deadline(scan)
		}
		ctx, cancel := context.WithTimeout(r.ctx, within)
		defer cancel()
		r.retry(ctx, flights)
	}) {
		return
	}
	for _, f := range flights {
		f.err = errClosed
		r.single.finish(f)
	}
}

var errClosed = &engine.Error{Code: api.CodeClosed, Message: "this node is stopping: ask another node"}

// pause is between two rounds in which no node answered: partitions may be moving from one node to another.
const pause = 25 * time.Millisecond

// subquery is what one node is asked of a flight.
type subquery struct {
	f *flight
	q *question // of f, about the partitions that this node is asked for
}

// retry asks the holders, round after round, until each flight has its answer or ctx ends. All flights are of one class;
// questions to one node leave together.
func (r *Router) retry(ctx context.Context, flights []*flight) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for len(flights) > 0 {
		if ctx.Err() != nil {
			for _, f := range flights {
				r.abandon(f)
			}
			return
		}
		to := map[string][]subquery{}
		var stuck []*flight
		for _, f := range flights {
			if r.plan(f, to); f.asking == 0 {
				stuck = append(stuck, f)
			}
		}
		for node, group := range to {
			asking.Go(func() { r.retry(ctx, r.askGroup(ctx, node, group)) })
		}
		flights = r.stuck(ctx, stuck)
	}
}

// askGroup asks one node, "" is this one, and returns the flights that need another round.
func (r *Router) askGroup(ctx context.Context, node string, group []subquery) (left []*flight) {
	questions := make([]*question, len(group))
	for i, s := range group {
		if s.q.kind == deletion {
			s.q.until = r.until(ctx).UnixMilli()
		}
		questions[i] = s.q
	}
	var each []*pending
	if node != "" {
		each = r.askNode(ctx, node, questions)
	}
	for i, s := range group {
		var said *pending
		switch {
		case node == "":
			said = &pending{fresh: r.own()} // before the answer that it describes
			said.answer = answerOf(r.engine, s.q)
		case each != nil:
			said = each[i]
		default: // ctx ended
			said = &pending{err: errSilent}
		}
		if !s.f.add(s.q, node, said) {
			continue // another node is still asked
		}
		if f := s.f; f.answer.err != nil || f.given && f.rest.Len() == 0 {
			r.finish(f)
		} else {
			left = append(left, f)
		}
	}
	return left
}

// until returns when the caller no longer waits for a deletion that is sent now.
func (r *Router) until(ctx context.Context) time.Time {
	until := time.Now().Add(r.attempt(quick))
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		return end
	}
	return until
}

// add takes what a node said, and reports whether the flight has no other node to wait for.
func (f *flight) add(q *question, node string, said *pending) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch a := &said.answer; {
	case said.err != nil:
		f.fail(node, said.err, nil)
	case node == "" && a.notHeld(): // it was released just now
	case node != "" && a.elsewhere():
		f.fail(node, a.err, a.held)
	case a.err != nil:
		f.answer.err = a.err
	default:
		f.fresh = joined(f.fresh, said.fresh)
		if f.given {
			f.answer.result = q.merge(f.answer.result, a.result)
		} else {
			f.given, f.answer.result = true, a.result
		}
		f.rest = without(f.rest, q.in)
	}
	f.asking--
	return f.asking == 0
}

// fail records why a node did not answer, and what it may still be asked in this round.
func (f *flight) fail(node string, why error, held replication.PartitionSet) {
	if held == nil {
		held = make(replication.PartitionSet, len(f.rest)) // nothing
	}
	if f.failed == nil {
		f.failed = map[string]replication.PartitionSet{}
	}
	f.failed[node] = held
	for i := range f.trail {
		if step := &f.trail[i]; step.node == node {
			if !errors.Is(why, errSilent) {
				step.why = why
			}
			return
		}
	}
	f.trail = append(f.trail, step{node, why})
}

// step is a node that was asked in vain, and the last reason.
type step struct {
	node string
	why  error
}

// stuck waits a moment for flights whose holders have all failed, and begins their next round. It abandons a flight that
// had no holder twice.
func (r *Router) stuck(ctx context.Context, flights []*flight) (again []*flight) {
	for _, f := range flights {
		nobody := len(f.failed) == 0
		if nobody && f.empty {
			r.abandon(f)
			continue
		}
		f.failed, f.empty = nil, nobody
		again = append(again, f)
	}
	if len(again) > 0 {
		_ = concurrency.Sleep(ctx, pause) // the retry looks whether ctx has ended
	}
	return again
}

func (r *Router) abandon(f *flight) {
	r.stats.unanswered.Add(1)
	f.answer.err = errClosed
	if r.ctx.Err() == nil {
		f.answer.err = r.unanswered(f)
	}
	r.finish(f)
}

func (r *Router) unanswered(f *flight) *engine.Error {
	partition := first(f.rest)
	if !f.q.wide() {
		partition = r.engine.Keyspace().PartitionOf(f.q.key)
	}
	if len(f.trail) == 0 {
		return &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: fmt.Sprintf("no running node holds partition %d: retry in a second", partition)}
	}
	asked, code, field := make([]string, len(f.trail)), api.CodeNotHeld, "key"
	for i, s := range f.trail {
		asked[i] = s.node + " (" + s.why.Error() + ")"
		if refused, ok := errors.AsType[*engine.Error](s.why); ok && refused.Code == api.CodeNotFresh { // it answers, and is behind
			code, field = refused.Code, "fresh"
		}
	}
	what := fmt.Sprintf("partition %d is held by other nodes, and none of them answered", partition)
	return &engine.Error{Code: code, Field: field, Message: what + ": asked " + strings.Join(asked, ", ") + "; retry in a second"}
}

func (r *Router) finish(f *flight) {
	if f.answer.err != nil {
		f.err = f.answer.err
	}
	if f.q.kind == deletion { // also one that may have been done without an answer
		r.single.forget(f.q.key)
	}
	r.single.finish(f)
}

// inbox takes the answers of other nodes, each in one part or several. A request of NATS takes one message only.
type inbox struct {
	conn   *nats.Conn
	prefix string // of the reply subjects
	sub    *nats.Subscription
	last   atomic.Uint64

	mu      sync.Mutex
	waiting map[string]*reply // by the end of its subject; one for each request that is being made
}

// reply is the part of an answer that has arrived.
type reply struct {
	next uint64 // the part that comes
	text []byte
	done chan error // one value
}

var errNoSubscriber = errors.New("no subscriber")

// maxArriving and maxArrivingBytes bound the messages that wait for arrive.
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

// request sends a request, and returns the text of its answer, all parts.
func (in *inbox) request(ctx context.Context, msg *nats.Msg) ([]byte, error) {
	id, rep := strconv.FormatUint(in.last.Add(1), 36), &reply{done: make(chan error, 1)}
	in.mu.Lock()
	in.waiting[id] = rep
	in.mu.Unlock()
	defer in.forget(id)
	msg.Reply = in.prefix + id
	if err := in.conn.PublishMsg(msg); err != nil {
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

// arrive takes one part. It drops a part that no request waits for.
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

// close takes no more answers. It fails only if the connection is closed.
func (in *inbox) close() { _ = in.sub.Unsubscribe() }
