package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// World is the clock, the chance and the record of one run.
type World struct {
	*rand.Rand

	now   time.Duration
	queue events
	made  uint64
	trace []string
}

// NewWorld begins at time 0.
func NewWorld(seed uint64) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 0x5eed))}
}

// Now is the time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// After runs f once the time has gone on by d. What is due at one time runs in the
// order in which it was asked for.
func (w *World) After(d time.Duration, f func()) {
	w.made++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.made, f})
}

// Every runs f each time d has gone by, until it returns false.
func (w *World) Every(d time.Duration, f func() bool) {
	w.After(d, func() {
		if f() {
			w.Every(d, f)
		}
	})
}

// Run lets the time go on by d.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		next := heap.Pop(&w.queue).(event)
		w.now = next.at
		next.f()
	}
	w.now = end
}

// Chance is true with a probability from 0 to 1.
func (w *World) Chance(p float64) bool { return w.Float64() < p }

// Between is a duration from least to less than most.
func (w *World) Between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.Int64N(int64(most-least)))
}

// Logf adds a line to the trace, with the time before it.
func (w *World) Logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// Trace has the lines of Logf so far.
func (w *World) Trace() []string { return w.trace }

// Sum is a checksum of the trace: two runs of one seed have the same.
func (w *World) Sum() uint64 {
	h := fnv.New64a()
	for _, line := range w.trace {
		h.Write([]byte(line)) // never fails
	}
	return h.Sum64()
}

type event struct {
	at   time.Duration
	made uint64
	f    func()
}

// events is a heap by time, then by order of making.
type events []event

func (q events) Len() int      { return len(q) }
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].made < q[j].made
}
func (q *events) Push(e any) { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
