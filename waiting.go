package weir

import "sync/atomic"

// waiting is what an engine took and no cut has yet, and how much of it there may be.
type waiting struct {
	entries atomic.Int64 // deltas and filled live cells
	bytes   atomic.Int64 // what they take in batches, at most
	bound   atomic.Pointer[waitingBound]

	taken atomic.Pointer[string] // why takes of limits that are journaled are refused; nil: they are not
}

// waitingBound is what Replication.BoundWaiting said last.
type waitingBound struct {
	bytes int64
	why   string
}

// entryBytes is what an entry of a batch takes at most, beside its key.
const entryBytes = 24

func waitingBytes(key string) int { return len(key) + entryBytes }

func bytesOf(deltas []Delta) (n int) {
	for _, d := range deltas {
		n += waitingBytes(d.Key)
	}
	return n
}

// BoundWaiting bounds what may wait for Cut, in bytes of batches, beside
// Config.MaxWaiting: when there is more, hits and removals are refused with
// CodeOverloaded, and why. Below 0 all are. It may be changed at any time; until the
// first call there is no such bound.
//
// It is how a journal has hits refused that it could not keep, before they are counted.
func (r *Replication) BoundWaiting(bytes int64, why string) {
	e := r.engine
	if was := e.waiting.bound.Load(); was == nil || *was != (waitingBound{bytes, why}) {
		e.waiting.bound.Store(&waitingBound{bytes, why})
	}
}

// Crowded tells whether hits are refused as too much waits for Cut.
func (r *Replication) Crowded() bool { return r.engine.waiting.tooMuch(r.engine.cfg.MaxWaiting) }

// RefuseTakes has takes that would be admitted under a limit that is journaled refused
// with CodeOverloaded, and why; "" ends that. What is denied is denied all the same, and
// Peek and limits that are not journaled decide as ever.
//
// It is for a journal that takes no admissions: what it does not have, a crash gives back
// to be admitted once more.
func (r *Replication) RefuseTakes(why string) {
	e := r.engine
	was := e.waiting.taken.Load()
	switch {
	case why == "" && was != nil:
		e.waiting.taken.Store(nil)
	case why != "" && (was == nil || *was != why):
		e.waiting.taken.Store(&why)
	}
}

// refusesTake is why a take of a plan is refused; nil: it is not.
func (w *waiting) refusesTake(plan *limitPlan) error {
	if why := w.taken.Load(); why != nil && plan.journaled {
		return &Error{CodeOverloaded, "limit", *why}
	}
	return nil
}

func (w *waiting) tooMuch(most int64) bool {
	if w.entries.Load() > most {
		return true
	}
	bound := w.bound.Load()
	return bound != nil && w.bytes.Load() > bound.bytes
}

// refusal is why hits are refused while there is too much.
func (w *waiting) refusal() error {
	if bound := w.bound.Load(); bound != nil && w.bytes.Load() > bound.bytes {
		return &Error{CodeOverloaded, "", bound.why}
	}
	return &Error{CodeOverloaded, "", "the journal is behind and its buffer is full: retry in a second; if it lasts, look at the disk"}
}
