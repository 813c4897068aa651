package query

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

const (
	// maxServing and maxServingBytes bound the requests of each class that wait to be answered. Each node sends at most two
	// of a class at once.
	maxServing, maxServingBytes = 256, 32 << 20

	// drainTime bounds how long Close waits for requests that are on their way.
	drainTime = time.Second
)

// serving answers the questions of other nodes.
type serving struct {
	r        *Router
	sub      *nats.Subscription
	queues   [classes]queue
	stop     chan struct{}
	working  sync.WaitGroup
	answered atomic.Uint64
	dropped  atomic.Uint64
}

// queue has the requests of one class that wait for a worker.
type queue struct {
	waiting chan arrived
	bytes   atomic.Int64
}

type arrived struct {
	msg *nats.Msg
	at  time.Time
}

func (r *Router) listen() (*serving, error) {
	s := &serving{r: r, stop: make(chan struct{})}
	for i := range s.queues {
		s.queues[i].waiting = make(chan arrived, maxServing)
	}
	sub, err := r.cfg.Conn.Subscribe(subject(r.cfg.Self), s.arrive)
	if err == nil {
		err = sub.SetPendingLimits(maxServing, maxServingBytes)
	}
	if err == nil {
		err = r.cfg.Conn.Flush() // from now on, no node is answered that there is no subscriber
	}
	if err != nil {
		return nil, fmt.Errorf("listen for questions: %w", err)
	}
	s.sub = sub
	// Scans may have half of the processors, so that hits go on.
	atOnce := max(2, runtime.GOMAXPROCS(0))
	workers := [classes]int{quick: atOnce, scan: max(1, runtime.GOMAXPROCS(0)/2)}
	for i, n := range workers {
		for range n {
			s.working.Go(func() { s.work(&s.queues[i]) })
		}
	}
	return s, nil
}

// arrive queues a request. It never blocks: if the queue is full, the request is dropped, and its sender asks another node.
func (s *serving) arrive(msg *nats.Msg) {
	speed := quick // also for a request that will be refused
	if len(msg.Data) > 1 && class(msg.Data[1]) < classes {
		speed = class(msg.Data[1])
	}
	q, size := &s.queues[speed], int64(len(msg.Data))
	if q.bytes.Add(size) <= maxServingBytes {
		select {
		case q.waiting <- arrived{msg, time.Now()}:
			return
		default:
		}
	}
	q.bytes.Add(-size)
	s.dropped.Add(1)
}

func (s *serving) work(q *queue) {
	for {
		select {
		case a := <-q.waiting:
			q.bytes.Add(-int64(len(a.msg.Data)))
			s.answer(a)
			continue
		default:
		}
		select {
		case a := <-q.waiting:
			q.bytes.Add(-int64(len(a.msg.Data)))
			s.answer(a)
		case <-s.stop: // and nothing waits
			return
		}
	}
}

// answer answers one request. Its sender has given up after the ttl.
func (s *serving) answer(a arrived) {
	r := s.r
	req, err := readRequest(a.msg.Data, r.partitions)
	if err != nil {
		r.log.Warn("could not decode the query of another node; check that all nodes run the same version", "error", err)
		s.send(a.msg, statusRefused, []byte(clip(err.Error(), maxWhy)))
		return
	}
	span := r.cfg.Tracer.Begin("query for a node", a.msg.Header)
	if span != nil {
		defer span.End()
		span.Set("weir.questions", len(req.questions))
	}
	fresh := r.own() // before the answers that it describes
	text := appendFresh(nil, fresh)
	text = binary.AppendUvarint(text, uint64(len(req.questions)))
	for i := range req.questions {
		if time.Since(a.at) > req.ttl {
			s.dropped.Add(1)
			return
		}
		q := &req.questions[i]
		said := s.say(q)
		text = said.append(text)
	}
	s.answered.Add(uint64(len(req.questions)))
	s.send(a.msg, statusAnswers, text)
}

func (s *serving) say(q *question) answer {
	if q.upTo > 0 && (s.r.cfg.Followed == nil || s.r.cfg.Followed() < q.upTo) {
		return answer{err: errBehind}
	}
	if q.kind == deletion {
		if time.Now().UnixMilli() > q.until {
			return answer{err: errDeleteLate}
		}
		defer s.r.single.forget(q.key)
	}
	return answerOf(s.r.engine, q)
}

// errBehind says that the node has not followed the journal as far as a fresh answer needs. Another holder is asked, or this
// one again in a moment.
var errBehind = &engine.Error{Code: api.CodeNotFresh, Message: "it has not yet followed the journal up to the newest hits"}

// errDeleteLate refuses a deletion that took too long to arrive. Its caller has given up or asked another node, and later
// hits must stay.
var errDeleteLate = &engine.Error{Code: api.CodeOverloaded, Field: "key",
	Message: "the key was not deleted: its holder got the request too late, or the clocks of the two nodes differ too much. Try again, and run NTP"}

// send sends a text in as many parts as needed.
func (s *serving) send(to *nats.Msg, status byte, text []byte) {
	for part := 0; ; part++ {
		n := min(len(text), maxMessage)
		last := n == len(text)
		b := append(appendPart(make([]byte, 0, n+16), status, part, last), text[:n]...)
		if err := to.Respond(b); err != nil {
			s.r.log.Warn("could not send an answer to another node", "error", err)
			return
		}
		if last {
			return
		}
		text = text[n:]
	}
}

// close takes no more requests, and answers the queued ones.
func (s *serving) close() {
	drained := make(chan struct{})
	s.sub.SetClosedHandler(func(string) { close(drained) })
	if s.sub.IsValid() && s.sub.Drain() == nil { // else the connection is closed
		select {
		case <-drained:
		case <-time.After(drainTime):
		}
	}
	close(s.stop)
	s.working.Wait()
}

// joined returns the freshness of an answer that two nodes made together. A zero Freshness is of no node.
func joined(f, o api.Freshness) api.Freshness {
	if f.AsOf.IsZero() {
		return o
	}
	if o.AsOf.IsZero() {
		return f
	}
	if o.AsOf.Before(f.AsOf.Time) {
		f.AsOf = o.AsOf
	}
	if len(o.Late) == 0 {
		return f
	}
	late := slices.Concat(f.Late, o.Late)
	slices.SortFunc(late, func(a, b api.Late) int {
		if by := strings.Compare(a.Node, b.Node); by != 0 {
			return by
		}
		return a.Since.Compare(b.Since.Time)
	})
	f.Late = slices.CompactFunc(late, func(a, b api.Late) bool { return a.Node == b.Node }) // the earliest stays
	return f
}

// freshnessEvery is how old this node's own freshness may be: an old one only claims less.
const freshnessEvery = 50 * time.Millisecond

// own returns this node's own freshness. Call it before getting the answer that it describes.
func (r *Router) own() api.Freshness { return r.fresh.Get(freshnessEvery, r.cfg.Freshness) }
