package replica

import (
	"slices"
	"time"
)

// Clock is another node's, as one exchange of messages shows it.
type Clock struct {
	Node   string
	Origin string        // 16 hex digits
	Skew   time.Duration // above 0: it is ahead of ours; RTT/2 in doubt
	RTT    time.Duration
}

// ClocksAgree is how far clocks may differ, beside what the exchange leaves open.
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
