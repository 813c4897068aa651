package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

// clusterWriter sends to one node, whichever process that is: durable hits, each
// under one id until it is answered, and plain ones.
type clusterWriter struct {
	c    *processes
	node int

	mu       sync.Mutex
	durable  uint64      // answered
	sent     uint64      // plain, answered or not
	answered []time.Time // plain, when
	atRisk   uint64      // plain ones that kills may have taken
	slowest  time.Duration
}

func (w *clusterWriter) keys() (durable, plain string) {
	return "durable:" + w.c.name(w.node), "plain:" + w.c.name(w.node)
}

// run sends until stop is closed, and then until all durable hits are answered.
func (w *clusterWriter) run(stop <-chan struct{}) {
	durable, plain := w.keys()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(*clusterPace):
		}
		if p := w.c.nodes[w.node].Load(); p != nil {
			w.mu.Lock()
			w.sent++
			w.mu.Unlock()
			if p.post(plain, 1, "", false) {
				w.mu.Lock()
				w.answered = append(w.answered, time.Now())
				w.mu.Unlock()
			}
		}
		w.c.postUntilTaken(w.node, durable, fmt.Sprintf("%s-%d", w.c.name(w.node), i))
		w.mu.Lock()
		w.durable++
		w.mu.Unlock()
	}
}

// killed says when the node was killed: what was answered shortly before may be
// lost.
func (w *clusterWriter) killed(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	safe := at.Add(-3*flushEvery - w.slowest)
	for i := len(w.answered) - 1; i >= 0 && w.answered[i].After(safe); i-- {
		w.atRisk++
	}
}

// watch keeps the slowest flush of the node's process p, until it ends.
func (w *clusterWriter) watch(ctx context.Context, p *process) {
	w.mu.Lock()
	w.slowest = 0
	w.mu.Unlock()
	c, err := client.New(p.addr, client.Options{Retries: -1})
	if err != nil {
		panic(err) // the address is the server's own
	}
	for {
		stats, err := c.Stats(ctx)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.slowest = max(w.slowest, time.Duration(stats.Journal.FlushSeconds*float64(time.Second)))
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check wants on every node each durable hit that was answered, once; and of the
// plain ones all that were answered, but those that a kill may have taken, and no
// more than were sent.
func (w *clusterWriter) check(t *testing.T) {
	t.Helper()
	durable, plain := w.keys()
	counts := w.c.counts(durable)
	for i, n := range counts {
		if n != w.durable {
			t.Errorf("%s counts %d of %s, and %d were answered", w.c.name(i), n, durable, w.durable)
		}
	}
	answered := uint64(len(w.answered))
	counts = w.c.counts(plain)
	for i, n := range counts {
		if n != counts[0] || n > w.sent || n+w.atRisk < answered {
			t.Errorf("%s counts %d of %s: %d were sent, %d answered, of which kills may have taken %d; %s counts %d", w.c.name(i), n, plain, w.sent, answered, w.atRisk, w.c.name(0), counts[0])
		}
	}
	t.Logf("%s took %d durable hits and %d plain ones; lost %d plain ones, kills may take %d", w.c.name(w.node), w.durable, answered, max(answered, counts[0])-counts[0], w.atRisk)
}
