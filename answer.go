package weir

import "sync/atomic"

// lastAnswer keeps what the last read of a window found there, for the reads
// that follow: frequent reads ask for the same window, and the folded hits
// change only when the second does or a late hit comes. The live hits are not in
// it, so a reader always adds those of the moment.
//
// It is a sequence lock: each change of the window or the answer begins with another
// version, and a reader that finds another one than it began with has read nothing. An
// answer is of one version alone, so none is there from the beginning of a change until
// the next answer is kept. change, missed and set are called under the counter's lock.
type lastAnswer struct {
	version, of            atomic.Uint64 // of: that the answer is of
	at, seconds            atomic.Int64  // 0 seconds: no answer
	lower, estimate, upper atomic.Uint64

	missedAt, missedSeconds int64 // the last window that was not there; guarded by the counter's lock
}

// get returns the answer for the window, if it is the last one asked for. It
// holds if still(version) says so after the caller has read the live hits.
func (l *lastAnswer) get(at, seconds int64) (folded Count, version uint64, ok bool) {
	version = l.version.Load()
	if l.of.Load() != version || l.at.Load() != at || l.seconds.Load() != seconds {
		return Count{}, 0, false
	}
	return Count{Lower: l.lower.Load(), Estimate: l.estimate.Load(), Upper: l.upper.Load()}, version, true
}

func (l *lastAnswer) still(version uint64) bool { return l.version.Load() == version }

// missed tells whether the last window that was not there was this one too: then its answer is worth keeping.
// Where each read asks for another second, keeping would cost more than it saves.
func (l *lastAnswer) missed(at, seconds int64) bool {
	if l.missedAt == at && l.missedSeconds == seconds {
		return true
	}
	l.missedAt, l.missedSeconds = at, seconds
	return false
}

// set keeps an answer.
func (l *lastAnswer) set(at, seconds int64, folded Count) {
	l.change()
	l.at.Store(at)
	l.seconds.Store(seconds)
	l.lower.Store(folded.Lower)
	l.estimate.Store(folded.Estimate)
	l.upper.Store(folded.Upper)
	l.of.Store(l.version.Load())
}

// change comes before every change of the window.
func (l *lastAnswer) change() { l.version.Add(1) }
