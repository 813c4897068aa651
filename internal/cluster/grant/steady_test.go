package grant

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/limit"
)

// Three nodes are asked for one key all the time, most of it at one of them, or each as much: how much of the
// limit is admitted, of what one node alone would admit, and how many messages that takes.
func TestSteadyDemand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit.Limit
		least    float64 // of what one node alone admits
		messages float64 // for a decision, at most
	}{
		{limit.Limit{N: 100, Per: time.Second}, 0.96, 1.1},
		{limit.Limit{N: 100, Per: 10 * time.Second}, 0.97, 1.1},
		{limit.Limit{N: 100, Per: time.Minute}, 0.97, 1.1},
		{limit.Limit{N: 10_000, Per: time.Second}, 0.97, 0.04},
		{limit.Limit{N: 4000, Per: 20 * time.Second}, 0.97, 0.1},
		{limit.Limit{N: 1000, Per: time.Second, Burst: 100}, 0.95, 1},
		{limit.Limit{N: 1000, Per: time.Second, Algorithm: limit.GCRA}, 0.99, 0.6},
		{limit.Limit{N: 1000, Per: time.Second, Algorithm: limit.Fixed}, 0.97, 0.15},
	} {
		for _, load := range []float64{0.9, 1, 1.5, 3, 10} {
			if load > 2 && c.N > 1000 {
				continue // takes long, and says what the smaller ones say
			}
			for _, parts := range [][]float64{{0.8, 0.15, 0.05}, {0.34, 0.33, 0.33}} {
				t.Run(fmt.Sprintf("%v, %d per %v, burst %d, %v times that at nodes %v", c.Algorithm, c.N, c.Per, max(c.N, c.Burst), load, parts), func(t *testing.T) {
					t.Parallel()
					steady(t, c.Limit, parts, load, c.least, c.messages)
				})
			}
		}
	}
}

// steady has each node asked for its part of load times the limit.
func steady(t *testing.T, l limit.Limit, parts []float64, load, least, messages float64) {
	w := newWorld(1, len(parts), 1, l, false)
	w.run(simTTL)
	rate := load * float64(l.N) / float64(l.Per) // requests per ns
	var single limit.State
	var aloneN uint64
	measuring := false
	for i, part := range parts {
		every := 1 / (rate * part)
		var next func()
		at := float64(w.now) + every*w.random.Float64()
		next = func() {
			w.nodes[i].request("k0", 1)
			if v := w.plan.Take(&single, w.now, 1); v.Allowed && measuring {
				aloneN++
			}
			at += every * 2 * w.random.Float64()
			w.after(int64(at)-w.now, next)
		}
		w.after(int64(at)-w.now, next)
	}
	interval := int64(w.plan.Interval())
	w.run(w.now + 3*interval)
	began := len(w.admitted)
	w.asked, w.messages = 0, 0
	measuring = true
	const intervals = 5
	w.run(w.now + intervals*interval)
	got := float64(len(w.admitted) - began)
	ofLimit := got / (intervals * float64(w.plan.Limit().Burst))
	ofAlone := got / float64(aloneN)
	perDecision := float64(w.messages) / float64(w.asked)
	t.Logf("admitted %.1f %% of the limit, %.1f %% of what one node alone admits; %.4f messages for a decision", 100*ofLimit, 100*ofAlone, perDecision)
	if ofAlone < least {
		t.Errorf("admitted %.1f %% of what one node alone would admit: want %v %%", 100*ofAlone, 100*least)
	}
	if perDecision > messages {
		t.Errorf("%.4f messages for a decision: want %v", perDecision, messages)
	}
	if most := w.most("k0", interval); l.Algorithm == limit.Window && most > w.plan.Limit().Burst {
		t.Errorf("%d within the interval", most)
	}
}
