package replica

import (
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Clock is another node's, as one exchange of messages shows it.
type Clock struct {
	Node   string
	Origin string        // 16 hex digits
	Skew   time.Duration // above 0: it is ahead of ours; RTT/2 in doubt
	RTT    time.Duration
}

// ClocksAgree is how far clocks may differ, in addition to the uncertainty of the exchange.
const ClocksAgree = 500 * time.Millisecond

// ClockVerdict is what a node knows of its clock.
type ClockVerdict struct {
	Correction time.Duration // by which it is behind the majority, if that is more than they may differ
	Apart      time.Duration // the largest difference between clocks where no majority agrees; 0: one does
	Compared   int           // clocks of others
}

// JudgeClocks decides by the clocks of others.
func JudgeClocks(others []Clock) ClockVerdict {
	v := ClockVerdict{Compared: len(others)}
	skews, doubt := []time.Duration{0}, time.Duration(0)
	for _, c := range others {
		skews = append(skews, c.Skew)
		doubt = max(doubt, c.RTT/2)
	}
	slices.Sort(skews)
	agree := ClocksAgree + min(doubt, ClocksAgree)
	best := skews[:0]
	for first := range skews {
		last := first
		for last+1 < len(skews) && skews[last+1]-skews[first] <= agree {
			last++
		}
		if last+1-first > len(best) {
			best = skews[first : last+1]
		}
	}
	switch {
	case 2*len(best) <= len(skews):
		v.Apart = skews[len(skews)-1] - skews[0]
	case best[0] > 0 || best[len(best)-1] < 0: // and so this node's is not among them
		v.Correction = best[len(best)/2]
	}
	return v
}

// NoteClockSet notes that the time of day was set since the last call, and by how much. Messages after the given one
// have times of the new clock. is reports whether it was set.
func (r *Replica) NoteClockSet(after uint64) (by time.Duration, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by = r.unnoted(); by.Abs() < ClocksAgree {
		return by, false
	}
	r.Sets, r.behind = r.Sets.With(record.ClockSet{After: after, MS: by.Milliseconds()}), r.behind+by
	return by, true
}

// unnoted is by how much the time of day was set forward since Sets was noted; less than ClocksAgree is drift.
func (r *Replica) unnoted() time.Duration {
	return r.engine.LimitClockBehind() - r.behind
}

// ClockSets returns Sets, a list that does not change.
func (r *Replica) ClockSets() record.ClockSets {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Sets
}

// sinceSet returns by how much the time of day was set forward since a message, or since a snapshot that goes up to
// it. A set that is not in Sets yet counts for every message. The caller holds mu, or nobody else has the replica yet.
func (r *Replica) sinceSet(message uint64) time.Duration {
	list := r.Sets
	if by := r.unnoted(); by.Abs() >= ClocksAgree {
		list = list.With(record.ClockSet{After: math.MaxUint64, MS: by.Milliseconds()})
	}
	return list.Since(message)
}
