package main

import "time"

// limiter admits or denies a request at a time since it was made. Times do not
// go back.
type limiter func(at time.Duration) bool

// admission lies in [from, to]: a point where time is virtual, else from just
// before the request to just after it.
type admission struct{ from, to time.Duration }

// clock waits until a time since the limiter was made, unless it has passed, and
// tells the time.
type clock func(at time.Duration) time.Duration

// virtual time is there at once.
func virtualTime(at time.Duration) time.Duration { return at }

// admissions runs a schedule against a new limiter.
func (s schedule) admissions(allow limiter, wait clock) (list []admission) {
	for _, ask := range s.asks {
		for range ask.n {
			from := wait(ask.at)
			if !allow(ask.at) {
				break
			}
			list = append(list, admission{from, wait(ask.at)})
		}
	}
	return list
}

// mostWithin is the largest number of admissions in any half-open interval
// (t-period, t]: one that ends at an admission has it.
func mostWithin(list []admission, period time.Duration) (most int) {
	first := 0
	for last := range list {
		for list[last].to-list[first].from >= period {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// worst is the most that any of the schedules had admitted within a period, and
// the first of them that had. Start makes a new limiter.
func worst(all []schedule, period time.Duration, start func() (limiter, clock)) (most int, name string) {
	for _, s := range all {
		if n := mostWithin(s.admissions(start()), period); n > most {
			most, name = n, s.name
		}
	}
	return most, name
}
