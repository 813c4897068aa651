package admit

import "time"

// exactWindow is up to which length windows are exact to the second.
const exactWindow = 300 * time.Second

// retryBeside is after how long a denied check passes if nothing else happens: not earlier than that, and later by at most a second, or
// by what the edges of long windows leave in doubt.
//
// What others used leaves second by second, and what was used here as the limit has it: the first second is searched from which on the
// one leaves room for the other. Windows of more than 5 minutes end in slots of up to 1 % of them, which may be wider by then, so that
// much is added.
//
// Cost: O(log T) counts of each region.
func (l *Live) retryBeside(d *Decision, place int) (time.Duration, error) {
	c := &d.checks[place]
	n := c.N
	for i := range place {
		if other := &d.checks[i]; other.Key == c.Key && other.Limit.Name() == c.Limit.Name() {
			n += other.N
		}
	}
	at, window := othersAt(d.asked), othersWindow(d.Results[place].Limit)
	most := window
	if window > exactWindow {
		most += roundUp(window / 100)
	}
	// own is when there is room here, as of now, for what others have not left after some seconds.
	own := func(seconds int) (after time.Duration, ever bool, err error) {
		var used uint64
		if left := min(window, most-time.Duration(seconds)*time.Second); left > 0 {
			if _, used, _, err = l.others(d.Results[place].counted, at, left); err != nil {
				return 0, false, err
			}
		}
		v, err := c.Limit.Peek(c.Key, n+used)
		return v.RetryAfter, !v.Never, err
	}
	low, high := 0, int(most/time.Second) // at high nothing of others is left
	before, known := time.Duration(0), false
	for low < high {
		middle := (low + high) / 2
		after, ever, err := own(middle)
		switch {
		case err != nil:
			return 0, err
		case ever && after <= time.Duration(middle)*time.Second:
			high = middle
		default:
			low, before, known = middle+1, after, ever
		}
	}
	retry := time.Duration(high) * time.Second
	if known { // with what others have not left in the second before
		retry = min(retry, before)
	}
	return max(retry, time.Millisecond), nil
}
