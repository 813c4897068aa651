package httpapi

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

// event is a line of a log: n hits of each key at one time, in milliseconds.
type event struct {
	at   int64
	n    uint64
	keys []string
}

// question asks for the hits of key in (at-w, at] once every event up to at
// has been posted. at is in milliseconds, w in seconds.
type question struct {
	at, w int64
	key   string
	want  uint64
}

var oracleWindows = []int64{1, 10, 60, 300, 3600, 86400, 604800}

// TestOracleGenerated posts a made-up log in its shuffled order and asks at
// many instants; truth is a count over a slice.
func TestOracleGenerated(t *testing.T) {
	for name, step := range map[string]int64{"whole seconds": 1000, "milliseconds": 1} {
		t.Run(name, func(t *testing.T) {
			const seed = 7
			r := rand.New(rand.NewPCG(seed, seed))
			events := generate(r, step)
			truth := newTruth(events)
			var questions []question
			for range 60 {
				at := (events[0].at + r.Int64N(9*86400*1000)) / step * step
				if r.IntN(4) == 0 {
					at -= at % 1000
				}
				for _, key := range []string{"all", "url:/0", "url:/3?q=1", "user:5", "never"} {
					for _, w := range append(oracleWindows, 1+r.Int64N(700_000)) {
						questions = append(questions, question{at, w, key, truth.count(key, at-w*1000, at)})
					}
				}
			}
			checkOracle(t, events, questions)
		})
	}
}

// generate makes eight days of traffic with bursts and silences, seconds
// shuffled within each minute.
func generate(r *rand.Rand, step int64) []event {
	const begin, end = int64(1_431_857_100_000), int64(1_431_857_100_000 + 8*86400*1000)
	zipf := rand.NewZipf(r, 1.2, 1, 20)
	var events []event
	for at := begin; at < end; {
		keys := []string{"all", fmt.Sprintf("url:/%d", zipf.Uint64()), fmt.Sprintf("user:%d", zipf.Uint64())}
		if r.IntN(4) == 0 {
			keys[1] = "url:/3?q=1"
		}
		events = append(events, event{at / step * step, 1 + zipf.Uint64(), keys})
		switch r.IntN(100) {
		case 0:
			at += r.Int64N(4 * 3600 * 1000)
		case 1, 2, 3:
			at += r.Int64N(600 * 1000)
		default:
			at += r.Int64N(20 * 1000)
		}
	}
	minute := func(e event) int64 { return e.at / 60_000 }
	for i := 0; i < len(events); {
		j := i
		for j < len(events) && minute(events[j]) == minute(events[i]) {
			j++
		}
		r.Shuffle(j-i, func(a, b int) { events[i+a], events[i+b] = events[i+b], events[i+a] })
		i = j
	}
	return events
}

// checkOracle posts events in their order and asks each question as soon as no
// event to come can matter to it.
func checkOracle(t *testing.T, events []event, questions []question) {
	t.Helper()
	truth := newTruth(events)
	slices.SortStableFunc(questions, func(a, b question) int { return cmp.Compare(a.at, b.at) })
	// earliest[i] is the earliest time of events[i:].
	earliest := make([]int64, len(events)+1)
	earliest[len(events)] = 1 << 62
	for i := len(events) - 1; i >= 0; i-- {
		earliest[i] = min(earliest[i+1], events[i].at)
	}
	a := newTestAPI(t, engine.Config{Clock: engine.EventClock, Now: time.Now}, options{HTTP: Config{Addr: "127.0.0.1:0"}})
	addr, _ := a.run()
	a.url = "http://" + addr

	next := 0
	for len(questions) > 0 {
		// One request per instant and key, with all of its windows.
		n := 1
		for n < len(questions) && questions[n].at == questions[0].at && questions[n].key == questions[0].key {
			n++
		}
		for earliest[next] <= questions[0].at {
			next = a.postEvents(events, next, earliest, questions[0].at)
		}
		a.check(questions[:n], truth)
		questions = questions[n:]
	}
}

// postEvents posts the next events, at most a batch of those needed at that
// time, and returns the index after them.
func (a *testAPI) postEvents(events []event, next int, earliest []int64, at int64) int {
	a.Helper()
	var body strings.Builder
	hits, lines := uint64(0), 0
	for ; earliest[next] <= at && lines < batchLines; next++ {
		e := events[next]
		for _, key := range e.keys {
			fmt.Fprintf(&body, "%s %d %s\n", key, e.n, units.FormatUnix(time.UnixMilli(e.at)))
			hits += e.n
			lines++
		}
	}
	r := a.do(http.MethodPost, "/v1/hits", "text/plain", body.String())
	if want := fmt.Sprintf(`{"counted":%d,`, hits); r.status != 200 || !strings.HasPrefix(r.body, want) {
		a.Fatalf("POST: %d %s, want %s", r.status, r.body, want)
	}
	return next
}

// check asks the questions, which share key and instant, in one request.
//
// A whole second stands for all of it, so where hits have milliseconds an
// instant that happens to be whole is asked for half a millisecond later: no
// hit lies in between, and the fraction says that an instant is meant.
func (a *testAPI) check(questions []question, truth truth) {
	a.Helper()
	q := questions[0]
	at := time.UnixMilli(q.at)
	if truth.fractions && q.at%1000 == 0 {
		at = at.Add(time.Millisecond / 2)
	}
	params := url.Values{"key": {q.key}, "at": {units.FormatUnix(at)}}
	for _, q := range questions {
		params.Add("window", fmt.Sprint(q.w))
	}
	var one countWire
	var many struct{ Counts []countWire }
	if len(questions) == 1 {
		a.getInto("/v1/count?"+params.Encode(), &one)
		many.Counts = []countWire{one}
	} else {
		a.getInto("/v1/count?"+params.Encode(), &many)
	}
	if len(many.Counts) != len(questions) {
		a.Fatalf("%d answers to %d questions", len(many.Counts), len(questions))
	}
	for i, c := range many.Counts {
		a.checkOne(questions[i], c, truth)
	}
}

// countWire is an answer as a client reads it.
type countWire struct {
	Lower, Estimate, Upper uint64
	Exact                  bool
	WindowS                int64 `json:"window_s"`
}

// checkOne holds an answer against the promise: exact for whole seconds up to
// 300 s; else bounds around the truth that leave in doubt no more than one
// slot of at most 1 % of the window, and the seconds cut by a fraction.
func (a *testAPI) checkOne(q question, c countWire, truth truth) {
	a.Helper()
	slack := q.w * 10 // a hundredth of the window, in milliseconds
	if q.w <= 300 {
		slack = 0
	}
	from := q.at - q.w*1000
	least := truth.count(q.key, from+slack, q.at)
	most := truth.count(q.key, from-slack, q.at)
	if truth.fractions {
		bottom, top := from-from%1000, q.at-q.at%1000 // the seconds that are cut
		least = truth.count(q.key, bottom+999+slack, top-1)
		most = truth.count(q.key, bottom-1-slack, top+999)
	}
	switch {
	case c.WindowS != q.w,
		c.Exact != (c.Lower == c.Upper),
		c.Lower > q.want || q.want > c.Upper,
		c.Estimate < c.Lower || c.Estimate > c.Upper,
		!truth.fractions && q.w <= 300 && !c.Exact,
		c.Lower < least, c.Upper > most:
		a.Errorf("%s in (%d ms - %d s]: got %+v, want %d within %d..%d", q.key, q.at, q.w, c, q.want, least, most)
	}
}

// truth counts by looking at every hit of a key, in order of time.
type truth struct {
	sums      map[string][]sum
	fractions bool // hits have fractions of a second
}

// sum is the hits of a key up to and including at.
type sum struct {
	at    int64
	total uint64
}

func newTruth(events []event) truth {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	t := truth{sums: map[string][]sum{}}
	for _, e := range sorted {
		t.fractions = t.fractions || e.at%1000 != 0
		for _, key := range e.keys {
			total := e.n
			if sums := t.sums[key]; len(sums) > 0 {
				total += sums[len(sums)-1].total
			}
			t.sums[key] = append(t.sums[key], sum{e.at, total})
		}
	}
	return t
}

// count returns the hits in (from, to].
func (t truth) count(key string, from, to int64) uint64 {
	if to <= from {
		return 0
	}
	return t.upTo(key, to) - t.upTo(key, from)
}

func (t truth) upTo(key string, at int64) uint64 {
	sums := t.sums[key]
	i, _ := slices.BinarySearchFunc(sums, at+1, func(s sum, at int64) int { return cmp.Compare(s.at, at) })
	if i == 0 {
		return 0
	}
	return sums[i-1].total
}
