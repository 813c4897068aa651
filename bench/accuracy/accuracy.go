// Package accuracy measures how far the designs' counts are from the truth.
package accuracy

import (
	"math/rand/v2"

	"github.com/weir-counter/weir/bench/textbook"
	"github.com/weir-counter/weir/bench/traffic"
)

// Error is how far the counts of one window were from the truth, in hits.
type Error struct {
	Questions int     // counts asked for
	Largest   int64   // difference
	Mean      float64 // difference
	Truth     float64 // mean true count
}

// truth answers from all hits at once.
type truth struct {
	start  int64
	before []int64 // hits before second start+i
}

func newTruth(trace traffic.Trace) truth {
	before := make([]int64, len(trace.Counts)+1)
	for i, n := range trace.Counts {
		before[i+1] = before[i] + n
	}
	return truth{trace.Start, before}
}

func (t truth) count(at, seconds int64) int64 {
	index := func(second int64) int64 { return max(0, min(second-t.start, int64(len(t.before)-1))) }
	return t.before[index(at+1)] - t.before[index(at+1-seconds)]
}

// replay calls hit for every hit of the trace, and ask in the last day, at
// times when no hit is under way. In order of time it asks every 193 s, so that
// the questions fall anywhere in a slot. Late means that the hits of each minute
// come in random order, and the questions come every seven minutes.
func replay(trace traffic.Trace, late bool, hit func(at int64), ask func(at int64)) {
	lastDay := trace.Start + int64(len(trace.Counts)) - traffic.Day
	if !late {
		for i, n := range trace.Counts {
			at := trace.Start + int64(i)
			for range n {
				hit(at)
			}
			if at >= lastDay && (at-lastDay)%193 == 0 {
				ask(at)
			}
		}
		return
	}
	r := rand.New(rand.NewPCG(1, 1))
	var minute []int64
	for i, n := range trace.Counts {
		at := trace.Start + int64(i)
		for range n {
			minute = append(minute, at)
		}
		if i%60 != 59 {
			continue
		}
		r.Shuffle(len(minute), func(i, j int) { minute[i], minute[j] = minute[j], minute[i] })
		for _, at := range minute {
			hit(at)
		}
		minute = minute[:0]
		if at >= lastDay && (at-lastDay)/60%7 == 0 {
			ask(at)
		}
	}
}

// measure compares a counter's answers for one window with the truth.
func measure(trace traffic.Trace, late bool, counter textbook.Counter, seconds int64) Error {
	var e Error
	truth := newTruth(trace)
	replay(trace, late, counter.Hit, func(at int64) {
		want := truth.count(at, seconds)
		diff := counter.Count(at, seconds) - want
		e.add(max(diff, -diff), want)
	})
	return e.means()
}

// add counts a question in; until means, Mean and Truth are sums.
func (e *Error) add(diff, truth int64) {
	e.Questions++
	e.Largest = max(e.Largest, diff)
	e.Mean += float64(diff)
	e.Truth += float64(truth)
}

func (e Error) means() Error {
	e.Mean /= float64(e.Questions)
	e.Truth /= float64(e.Questions)
	return e
}
