package accuracy

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paulbellamy/ratecounter"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/adapter"
	"github.com/weir-counter/weir/bench/textbook"
	"github.com/weir-counter/weir/bench/traffic"
)

const days = 8 // a week before the day that is measured

var windows = []struct {
	name    string
	seconds int64
}{{"10s", 10}, {"1m", 60}, {"5m", 300}, {"1h", 3_600}, {"1d", traffic.Day}, {"1w", 7 * traffic.Day}}

type namedTrace struct {
	name string
	traffic.Trace
}

// traces are the generated days and, where its file is at hand, the day of July
// 1995 on which most people asked NASA's web server.
func traces(t *testing.T) []namedTrace {
	all := []namedTrace{{"generated", traffic.Generated(days)}}
	nasa, err := traffic.Recorded("../../../shared/data/nasa_jul95_persec.tsv.gz", time.Date(1995, 7, 6, 0, 0, 0, 0, time.UTC).Unix(), days)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Log("nasa_jul95_persec.tsv.gz is not here: measuring the generated days alone")
	case err != nil:
		t.Fatal(err)
	default:
		all = append(all, namedTrace{"nasa", nasa})
	}
	return all
}

// designs is set by the report: tests need Weir's counts of all windows, and know by one
// window that the other designs still run.
var designs = flag.Bool("designs", false, "measure the textbook designs and libraries over all windows, not the shortest alone")

// TestError prints the error of every design in the format of Go benchmarks,
// which is where docs/benchmarks.md has it from, and fails where Weir breaks
// its promises. Each counter is made for the window that it is asked for.
func TestError(t *testing.T) {
	for _, trace := range traces(t) {
		for _, late := range []bool{false, true} {
			for _, window := range windows {
				counter := weirCounter(t)
				e := measure(trace.Trace, late, counter, window.seconds)
				report(trace.name, late, "weir", window.name, e)
				if window.seconds <= 300 && e.Largest != 0 {
					t.Errorf("weir is off by %d hits in a window of %s: must be exact", e.Largest, window.name)
				}
				if !*designs && window != windows[0] {
					continue
				}
				for _, design := range textbook.Designs() {
					report(trace.name, late, design.Name, window.name,
						measure(trace.Trace, late, design.New(window.seconds), window.seconds))
				}
			}
		}
	}
}

func weirCounter(t *testing.T) adapter.Counter {
	counter, err := weir.NewCounter(7 * traffic.Day * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return adapter.Counter{Weir: counter}
}

func report(trace string, late bool, design, window string, e Error) {
	order := "in-time"
	if late {
		order = "late"
	}
	fmt.Printf("BenchmarkError/trace=%s/order=%s/design=%s/window=%s %d %d largest-hits %.2f mean-hits %.0f truth-hits\n",
		trace, order, design, window, e.Questions, e.Largest, e.Mean, e.Truth)
}

// TestWeirBounds checks every answer's bounds against the truth, and prints how
// far apart they are as an error of its own.
func TestWeirBounds(t *testing.T) {
	for _, trace := range traces(t) {
		for _, late := range []bool{false, true} {
			counter, bounds := weirCounter(t), make([]Error, len(windows))
			truth := newTruth(trace.Trace)
			replay(trace.Trace, late, counter.Hit, func(at int64) {
				for i, window := range windows {
					got, err := counter.Weir.CountAt(time.Unix(at, 0), time.Duration(window.seconds)*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					want := truth.count(at, window.seconds)
					if n := uint64(want); got.Lower > n || got.Upper < n || got.Estimate < got.Lower || got.Estimate > got.Upper {
						t.Fatalf("%s, late %v: %s at %d: %+v, truth %d", trace.name, late, window.name, at, got, want)
					}
					bounds[i].add(int64(got.Upper-got.Lower), want)
				}
			})
			for i, window := range windows {
				report(trace.name, late, "weir-bounds", window.name, bounds[i].means())
			}
		}
	}
}

// TestErrorOfRateCounter runs a library that goes by the wall clock through the
// same days, in the fake time of a synctest bubble.
func TestErrorOfRateCounter(t *testing.T) {
	for _, trace := range traces(t) {
		for _, window := range windows {
			if !*designs && window != windows[0] {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				clock := &rateClock{now: trace.Start, RateCounter: adapter.RateCounter{
					Peer: ratecounter.NewRateCounter(time.Duration(window.seconds) * time.Second),
				}}
				e := measure(trace.Trace, false, clock, window.seconds)
				report(trace.name, false, "ratecounter", window.name, e)
				time.Sleep(2 * time.Duration(window.seconds) * time.Second) // its goroutine ends when all hits are out
			})
		}
	}
}

// rateClock sleeps until the middle of the second that it is called for.
type rateClock struct {
	adapter.RateCounter
	now int64
}

func (r *rateClock) Hit(at int64) {
	r.sleep(at)
	r.RateCounter.Hit(at)
}

// Count asks just before the end of the second, so that all its hits are in.
func (r *rateClock) Count(at, seconds int64) int64 {
	r.sleep(at)
	time.Sleep(999 * time.Millisecond)
	count := r.RateCounter.Count(at, seconds)
	time.Sleep(time.Millisecond)
	r.now++
	return count
}

func (r *rateClock) sleep(at int64) {
	time.Sleep(time.Duration(at-r.now) * time.Second)
	r.now = at
}
