package query

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// gate is a node that answers nothing before it is opened: a holder in front of
// which questions gather.
type gate struct {
	msgs chan *nats.Msg
	sub  *nats.Subscription
}

// newGate takes the questions to a node in its place.
func (f *fleet) newGate(n *node) *gate {
	f.t.Helper()
	g := &gate{msgs: make(chan *nats.Msg, 10_000)}
	if err := n.serve.sub.Unsubscribe(); err != nil {
		f.t.Fatal(err)
	}
	var err error
	if g.sub, err = n.conn.ChanSubscribe(subject(n.id), g.msgs); err != nil {
		f.t.Fatal(err)
	}
	if err := n.conn.Flush(); err != nil {
		f.t.Fatal(err)
	}
	return g
}

// open lets a node answer what has come, and all that comes.
func (g *gate) open(t testing.TB, n *node) {
	var passing sync.WaitGroup
	passing.Go(func() {
		for msg := range g.msgs {
			n.serve.arrive(msg)
		}
	})
	t.Cleanup(func() {
		_ = g.sub.Unsubscribe() // or the connection is closed
		close(g.msgs)
		passing.Wait()
	})
}

// Equal questions share a request, and different ones leave together.
func TestQuestionsAreSharedAndBatched(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, far := f.nodes[0], f.keyOf(1, 0)
	f.hit(far, epoch+3600, 7)
	g := f.newGate(f.nodes[1])
	const callers = 1000
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			if c := n.count(t, far); c.Lower != 7 {
				t.Error(c)
			}
		})
	}
	transporttest.Eventually(t, "all ask", func() bool { return n.Stats().Joined == callers-1 })
	g.open(t, f.nodes[1])
	asking.Wait()
	if s := n.Stats(); s.Requests != 1 || s.Asked != 1 || s.Joined+s.Repeated != callers-1 || s.Asking != 0 {
		t.Errorf("%d equal questions: %+v", callers, s)
	}
	if n.count(t, far); n.Stats().Requests != 1 || n.Stats().Repeated != 1 {
		t.Errorf("an answer is not given again: %+v", n.Stats())
	}
}

func TestQuestionsAreBatched(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, g := f.nodes[0], f.newGate(f.nodes[1])
	const callers = 1000
	var asking sync.WaitGroup
	for i, asked := 0, 0; asked < callers; i++ {
		if key := fmt.Sprint("k", i); f.model.Keyspace().PartitionOf(key)%2 == 1 {
			asking.Go(func() { n.count(t, key) })
			asked++
		}
	}
	transporttest.Eventually(t, "all wait", func() bool { return n.Stats().Asked == callers })
	g.open(t, f.nodes[1])
	asking.Wait()
	if s := n.Stats(); s.Requests > maxUnderWay+1 || s.Asked != callers {
		t.Errorf("%d questions: %+v", callers, s)
	}
	if s := f.nodes[1].Stats(); s.Served != callers {
		t.Errorf("%+v", s)
	}
}

// Whoever goes away leaves the others their answer.
func TestACallerMayGo(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, far := f.nodes[0], f.keyOf(1, 0)
	f.hit(far, epoch+3600, 7)
	g := f.newGate(f.nodes[1])
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: far, At: now, Window: time.Hour}}, nil)
		gone <- err
	}()
	transporttest.Eventually(t, "it is asked", func() bool { return n.Stats().Requests == 1 })
	stays := make(chan engine.Count)
	go func() { stays <- n.count(t, far) }()
	transporttest.Eventually(t, "another one asks", func() bool { return n.Stats().Joined == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	g.open(t, f.nodes[1])
	if c := <-stays; c.Lower != 7 || n.Stats().Requests != 1 {
		t.Errorf("%v, %+v", c, n.Stats())
	}
}

func TestTooManyQuestions(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, g := f.nodes[0], f.newGate(f.nodes[1])
	n.single.most = 3
	var asking sync.WaitGroup
	for i := range 3 {
		key := f.keyOf(1, i)
		asking.Go(func() { n.count(t, key) })
	}
	transporttest.Eventually(t, "three ask", func() bool { return n.Stats().Asking == 3 })
	_, _, err := n.Counts(t.Context(), 0, []api.CountQuestion{{Key: f.keyOf(1, 3), At: now, Window: time.Hour}}, nil)
	var refused *engine.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeOverloaded || n.Stats().Refused != 1 {
		t.Errorf("%v, %+v", err, n.Stats())
	}
	g.open(t, f.nodes[1])
	asking.Wait()
	n.count(t, f.keyOf(1, 3))
}

// Answers are kept for one flush interval, and within bounds.
func TestKeptAnswersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingleflight(100 * time.Millisecond)
		defer s.close()
		ask := func(key string) *flight {
			f, isNew, err := s.begin(&question{kind: count, key: key, window: time.Second})
			if err != nil || !isNew {
				t.Fatalf("%v, %v", isNew, err)
			}
			s.finish(f)
			return f
		}
		q := question{kind: count, key: "a", window: time.Second}
		ask("a")
		time.Sleep(60 * time.Millisecond)
		ask("b")
		if s.find(&q) == nil {
			t.Error("an answer left early")
		}
		time.Sleep(40 * time.Millisecond)
		if s.find(&q) != nil {
			t.Error("an answer stayed")
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		if len(s.flights)+len(s.answered)+s.bytes != 0 || s.sweeper != nil {
			t.Errorf("%d, %d answers, %d bytes are kept", len(s.flights), len(s.answered), s.bytes)
		}
		s.mu.Unlock()
		for i := range maxRemembered + 100 {
			ask(fmt.Sprint(i))
		}
		if len(s.flights) != maxRemembered || len(s.answered) != maxRemembered {
			t.Errorf("%d answers are kept", len(s.answered))
		}
		f, _, _ := s.begin(&question{kind: keys, n: 1})
		f.answer.result = result{{Key: string(make([]byte, maxRememberedBytes/2))}}
		s.finish(f)
		f, _, _ = s.begin(&question{kind: keys, n: 2})
		f.answer.result = result{{Key: string(make([]byte, maxRememberedBytes/2))}}
		s.finish(f)
		if len(s.answered) != 1 || s.bytes > maxRememberedBytes || s.asking.Load() != 0 {
			t.Errorf("%d answers, %d bytes are kept", len(s.answered), s.bytes)
		}
	})
}

// An error is not kept, and is that of all who shared the question.
func TestErrorsAreNotKept(t *testing.T) {
	s := newSingleflight(time.Hour)
	defer s.close()
	q := question{kind: count, key: "a", window: time.Second}
	f, _, _ := s.begin(&q)
	if again, isNew, _ := s.begin(&q); again != f || isNew {
		t.Error("not shared")
	}
	f.err = errClosed
	s.finish(f)
	if s.find(&q) != nil || len(s.flights) != 0 {
		t.Error("an error is kept")
	}
}
