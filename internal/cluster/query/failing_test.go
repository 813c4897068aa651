package query

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// soon is a deadline of tests in which somebody does not answer.
func soon(cfg *Config) { cfg.Deadline = 3 * time.Second; cfg.Logger = nil }

// A holder that does not answer, in whatever manner, is passed over, and the next
// one's answers are complete.
func TestAHolderFails(t *testing.T) {
	for name, fail := range map[string]func(f *fleet, n *node){
		"gone":    func(_ *fleet, n *node) { n.Close() },
		"cut off": func(_ *fleet, n *node) { n.conn.Close() },
		"hangs":   func(f *fleet, n *node) { f.newGate(n) },
		"let all go": func(_ *fleet, n *node) {
			for p := range parts {
				n.engine.Release(p)
			}
		},
		"let one go": func(_ *fleet, n *node) { n.engine.Release(1) },
		"is too old": func(f *fleet, n *node) { f.answers(n, func([]byte) []byte { return []byte("\x00\x00\x00") }) },
		"is newer":   func(f *fleet, n *node) { f.answers(n, func([]byte) []byte { return []byte("\x04\x00\x00\x01") }) },
		"refuses": func(f *fleet, n *node) {
			f.answers(n, func([]byte) []byte { return append([]byte{wireVersion}, "\x01\x00\x01why"...) })
		},
		"talks": func(f *fleet, n *node) { f.answers(n, func(q []byte) []byte { return q }) },
		"says nothing": func(f *fleet, n *node) {
			f.answers(n, func([]byte) []byte { return []byte{wireVersion, 0, 0, 1} })
		},
		"has other partitions": func(_ *fleet, n *node) { n.partitions = 32 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3, 2, soon)
			f.fill(100)
			fail(f, f.nodes[1])
			for _, n := range []*node{f.nodes[0], f.nodes[2]} {
				f.wantModel(n, 100)
				if s := n.Stats(); s.Unanswered != 0 || s.Requests == 0 {
					t.Errorf("%+v", s)
				}
			}
			key := f.keyOf(1, 0) // of n1, then n2
			f.hit(key, epoch, 1)
			if was, err := f.nodes[0].Delete(t.Context(), key); err != nil || !was {
				t.Errorf("%v, %v", was, err)
			}
		})
	}
}

// answers makes a node answer everything with what say returns.
func (f *fleet) answers(n *node, say func(question []byte) []byte) {
	f.t.Helper()
	if err := n.serve.sub.Unsubscribe(); err != nil {
		f.t.Fatal(err)
	}
	if _, err := n.conn.Subscribe(subject(n.id), func(msg *nats.Msg) { _ = msg.Respond(say(msg.Data)) }); err != nil {
		f.t.Fatal(err)
	}
	if err := n.conn.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

// A node that did not answer in time is not asked again for a while, if there is
// another; and if there is none, it is.
func TestAHolderRests(t *testing.T) {
	f := newFleet(t, 3, 2, soon)
	f.fill(100)
	g := f.newGate(f.nodes[1])
	key := f.keyOf(1, 0) // n1, then n2
	f.nodes[0].count(t, key)
	if s := f.nodes[0].Stats(); s.Requests != 2 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
	f.nodes[0].peers.get("n1").queues[quick].openUntil.Store(time.Now().Add(time.Hour).UnixNano())
	for i := range 5 {
		f.nodes[0].count(t, f.keyOf(1, 1+i))
	}
	if s := f.nodes[0].Stats(); s.Requests != 7 || s.Failed != 1 {
		t.Errorf("a node whose circuit breaker is open is asked: %+v", s)
	}
	f.mu.Lock()
	f.holders[1] = []string{"n1"}
	f.mu.Unlock()
	g.open(t, f.nodes[1])
	f.nodes[0].count(t, f.keyOf(1, 9))
	f.wantModel(f.nodes[0], 100)
}

// When nobody answers, the error says of which partition and who was asked.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 2, func(cfg *Config) { soon(cfg); cfg.Deadline = time.Second })
	f.nodes[1].Close()
	f.nodes[2].engine.Release(1)
	n, key := f.nodes[0], f.keyOf(1, 0)
	for name, ask := range map[string]func() error{
		"count": func() error {
			_, _, err := n.Counts(t.Context(), 0, []api.CountQuestion{{Key: key, At: now, Window: time.Hour}}, nil)
			return err
		},
		"all": func() error {
			_, _, err := n.Counts(t.Context(), 0, []api.CountQuestion{{Key: engine.AllKeys, At: now, Window: time.Hour}}, nil)
			return err
		},
		"series": func() error {
			_, _, err := n.Series(t.Context(), 0, key, now.Add(-time.Hour), now, time.Minute)
			return err
		},
		"delete": func() (err error) {
			for refused := (*engine.Error)(nil); refused == nil || refused.Code == api.CodeOverloaded; errors.As(err, &refused) { // it came too late
				_, err = n.Delete(t.Context(), key)
			}
			return err
		},
	} {
		err := ask()
		var refused *engine.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeNotHeld || !strings.Contains(refused.Message, "partition 1 ") ||
			!strings.Contains(refused.Message, "n1 (no ") || !strings.Contains(refused.Message, "n2 (it does not hold") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.mu.Lock()
	f.holders[1] = nil
	f.mu.Unlock()
	_, _, err := n.Top(t.Context(), 0, now, time.Hour, 10, "")
	if err == nil || !strings.Contains(err.Error(), "no running node holds partition 1") && !strings.Contains(err.Error(), "partition 1 ") {
		t.Errorf("%v", err)
	}
	if s := n.Stats(); s.Unanswered != 5 || s.Asking != 0 {
		t.Errorf("%+v", s)
	}
}

// A partition that moves from node to node is always answered for.
func TestPartitionsMove(t *testing.T) {
	f := newFleet(t, 3, 2, func(cfg *Config) { cfg.FlushEvery = time.Nanosecond })
	f.fill(100)
	states := map[int][]byte{}
	for p := range parts {
		for _, n := range f.nodes {
			if n.engine.Keyspace().Holds(p) {
				var c replication.Cut
				n.engine.Cut(p, &c, true)
				states[p] = c.State
			}
		}
	}
	over, answered := make(chan struct{}), make(chan struct{})
	var asking sync.WaitGroup
	for _, n := range f.nodes {
		asking.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-over:
					return
				default:
				}
				key := fmt.Sprint("k", round%100)
				if want, _ := f.model.CountAt(now, key, time.Hour); n.count(t, key) != want {
					t.Errorf("%s: want %v", key, want)
				}
				if want, _ := f.model.CountIn(f.in, now, engine.AllKeys, time.Hour); n.count(t, engine.AllKeys) != want {
					t.Errorf("*: want %v", want)
				}
				select {
				case answered <- struct{}{}:
				case <-over:
				}
			}
		})
	}
	for round := range 200 {
		p := round % parts
		f.mu.Lock()
		held := f.holders[p]
		f.mu.Unlock()
		from, to := f.nodes[int(held[0][1]-'0')], f.nodes[0]
		for _, n := range f.nodes {
			if !n.engine.Keyspace().Holds(p) {
				to = n
			}
		}
		state, err := replication.ReadState(states[p])
		if err != nil {
			t.Fatal(err)
		}
		if err := to.engine.Hold(p, state, nil); err != nil {
			t.Fatal(err)
		}
		from.engine.Release(p) // and the others do not know yet
		f.mu.Lock()
		f.holders[p] = []string{held[1], to.id}
		f.mu.Unlock()
		<-answered
	}
	close(over)
	asking.Wait()
	for _, n := range f.nodes {
		if s := n.Stats(); s.Unanswered != 0 {
			t.Errorf("%s: %+v", n.id, s)
		}
	}
}

// A node that is asked for more than it can answer drops what waits, and lives.
func TestServingHasBounds(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n := f.nodes[1]
	q := question{kind: count, key: f.keyOf(1, 0), at: now, window: time.Hour}
	ask := appendRequest(nil, quick, parts, 0, 1) // nobody waits for it
	ask = append(append(ask, byte(len(q.append(nil)))), q.append(nil)...)
	for range 10 {
		if err := f.nodes[0].conn.Publish(subject("n1"), ask); err != nil {
			t.Fatal(err)
		}
	}
	transporttest.Eventually(t, "ten are dropped", func() bool { return n.Stats().Dropped == 10 })
	n.serve.queues[quick].bytes.Store(maxServingBytes)
	if err := f.nodes[0].conn.Publish(subject("n1"), ask); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "one more is dropped", func() bool { return n.Stats().Dropped == 11 })
	n.serve.queues[quick].bytes.Store(0)
	f.nodes[0].count(t, q.keyed())
}
