package main

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// clusterWriter sends to one node, whichever process that is: durable hits, each
// under one id until it is answered, and plain ones.
type clusterWriter struct {
	c    *processes
	node int

	mu       sync.Mutex
	durable  uint64        // answered
	sent     uint64        // plain, answered or not
	answered []plainAnswer // plain
	lives    []*life       // of the node
}

// plainAnswer is that of a plain hit.
type plainAnswer struct {
	by *process
	at time.Time
}

// life is that of one process of a node.
type life struct {
	node    *process
	flushes *flushWatch
	killed  bool
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
				w.answered = append(w.answered, plainAnswer{p, time.Now()})
				w.mu.Unlock()
			}
		}
		w.c.postUntilTaken(w.node, durable, fmt.Sprintf("%s-%d", w.c.name(w.node), i))
		w.mu.Lock()
		w.durable++
		w.mu.Unlock()
	}
}

// began says that p serves as the node.
func (w *clusterWriter) began(p *process) {
	l := &life{node: p, flushes: new(flushWatch)}
	w.mu.Lock()
	w.lives = append(w.lives, l)
	w.mu.Unlock()
	go l.flushes.run(p)
}

// killed says that p was, without warning: what it answered last may be lost.
func (w *clusterWriter) killed(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		if l.node == p {
			l.killed = true
		}
	}
}

// atRisk is how many of the plain hits that were answered kills may have taken.
func (w *clusterWriter) atRisk() (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		if !l.killed {
			continue
		}
		safe := l.flushes.safe()
		for _, a := range w.answered {
			if a.by == l.node && a.at.After(safe) {
				n++
			}
		}
	}
	return n
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
	answered, atRisk := uint64(len(w.answered)), w.atRisk()
	counts = w.c.counts(plain)
	for i, n := range counts {
		if n != counts[0] || n > w.sent || n+atRisk < answered {
			t.Errorf("%s counts %d of %s: %d were sent, %d answered, of which kills may have taken %d; %s counts %d", w.c.name(i), n, plain, w.sent, answered, atRisk, w.c.name(0), counts[0])
		}
	}
	t.Logf("%s took %d durable hits and %d plain ones; lost %d plain ones, kills may take %d", w.c.name(w.node), w.durable, answered, max(answered, counts[0])-counts[0], atRisk)
}
