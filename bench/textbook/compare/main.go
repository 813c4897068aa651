// Command compare measures every design of package textbook, and Weir, in one
// run: errors, memory and time. It prints the tables of docs/textbook.md, and
// with -page writes them there and draws the picture.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/adapter"
	"github.com/weir-counter/weir/bench/machine"
	"github.com/weir-counter/weir/bench/textbook"
	"github.com/weir-counter/weir/bench/traffic"
	"github.com/weir-counter/weir/limit"
)

func main() {
	log.SetFlags(0)
	testing.Init()
	page := flag.String("page", "", "the page whose tables are replaced")
	picture := flag.String("picture", "", "the picture to draw")
	flag.Parse()
	if err := flag.Set("test.benchtime", "100ms"); err != nil {
		log.Fatal(err)
	}
	counters, limiters := measureCounters(), measureLimiters()
	tables := map[string]string{"counters": counterTable(counters), "limiters": limiterTable(limiters)}
	fmt.Printf("%s\n%s", tables["counters"], tables["limiters"])
	if *page != "" {
		if err := replaceTables(*page, tables); err != nil {
			log.Fatal(err)
		}
	}
	if *picture != "" {
		if err := os.WriteFile(*picture, draw(counters), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

const (
	window = 300
	hour   = 3_600
)

// counterFigures are the figures of one counter.
type counterFigures struct {
	name                string
	inOrder, late, hour float64 // largest error as a share of the true count
	lost                float64 // share of the hits that two goroutines lose
	bytes               int64   // of a counter whose window of an hour is full
	hit, count          time.Duration
}

func measureCounters() []counterFigures {
	engine, err := weir.New(weir.Config{Clock: weir.EventClock})
	if err != nil {
		log.Fatal(err)
	}
	keys := 0
	newWeir := func(int64) textbook.Counter {
		keys++
		return adapter.Key{Engine: engine, Key: fmt.Sprint("page", keys)}
	}
	designs := append(textbook.Designs(), textbook.Miniatures()...)
	designs = append(designs, textbook.Design{Name: "**Weir**", New: newWeir})
	day := traffic.Generated(1)
	var all []counterFigures
	for _, d := range designs {
		f := counterFigures{name: d.Name}
		f.inOrder, f.late, f.hour = largestError(day, d, window, 0), largestError(day, d, window, 30), largestError(day, d, hour, 0)
		f.lost = lost(d)
		f.bytes = memory(d)
		f.hit, f.count = times(d.New(window))
		all = append(all, f)
	}
	return all
}

const start = 1_700_006_400

// largestError returns the largest error of a count as a share of the true count. The hits of the trace arrive up to
// delay seconds late. It asks every 193 s, where at least 100 hits are in the window.
func largestError(trace traffic.Trace, d textbook.Design, seconds int64, delay int) (largest float64) {
	r := rand.New(rand.NewPCG(3, 3))
	c := d.New(seconds)
	n := int64(len(trace.Counts))
	arriving := make([][]int64, n+int64(delay)+1) // seconds of the hits that arrive in each second
	for i, hits := range trace.Counts {
		for range hits {
			arrival := i + r.IntN(delay+1)
			arriving[arrival] = append(arriving[arrival], int64(i))
		}
	}
	arrived := make([]int64, n)
	for now := range n {
		for _, i := range arriving[now] {
			c.Hit(trace.Start + i)
			arrived[i]++
		}
		if now < seconds || now%193 != 0 {
			continue
		}
		var truth int64
		for _, hits := range arrived[now-seconds+1 : now+1] {
			truth += hits
		}
		if truth >= 100 {
			diff := float64(c.Count(trace.Start+now, seconds) - truth)
			largest = max(largest, max(diff, -diff)/float64(truth))
		}
	}
	return largest
}

// lost is the share of hits that are missing after several goroutines hit one
// second at once. Hits of further seconds follow, for designs that send whole ones.
func lost(d textbook.Design) float64 {
	const goroutines, after = 4, 64
	hits := 300_000
	if d.Name == "central" {
		hits = 10_000
	}
	c := d.New(window)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range hits {
				c.Hit(start)
			}
		})
	}
	all.Wait()
	for i := range int64(after) {
		c.Hit(start + 1 + i/16)
	}
	return max(0, 1-float64(c.Count(start+after/16, window))/float64(goroutines*hits+after))
}

// memory is what one counter takes after two hours of ten hits a second, made
// for windows of an hour. A first one pays for what there is once.
func memory(d textbook.Design) int64 {
	const counters = 4
	fill := func() textbook.Counter {
		c := d.New(hour)
		hits := 10
		if d.Name == "central" {
			hits = 1
		}
		for at := int64(start); at < start+2*hour; at++ {
			for range hits {
				c.Hit(at)
			}
			if at%60 == 0 {
				c.Count(at, hour)
			}
		}
		return c
	}
	kept := []textbook.Counter{fill()}
	before := machine.Heap()
	for range counters {
		kept = append(kept, fill())
	}
	bytes := (machine.Heap() - before) / counters
	runtime.KeepAlive(kept)
	return bytes
}

// times measures a hit and a count of a window of five minutes with 100 hits
// a second. One hit of a hundred begins a new second.
func times(c textbook.Counter) (hit, count time.Duration) {
	at, hits := int64(start), 0
	next := func() {
		c.Hit(at)
		if hits++; hits%100 == 0 {
			at++
		}
	}
	for range window * 100 {
		next()
	}
	counted := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			c.Count(at, window)
		}
	})
	hitting := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			next()
		}
	})
	return time.Duration(hitting.NsPerOp()), time.Duration(counted.NsPerOp())
}

// limiterFigures are the figures of one limiter.
type limiterFigures struct {
	name     string
	most     int     // admitted in any period, at worst, of requests allowed
	unjust   float64 // share of requests denied that a sliding log of its own admissions lets pass
	bytes    int64
	decision time.Duration
}

const (
	allowed = 100
	period  = time.Second
)

func measureLimiters() []limiterFigures {
	designs := append(textbook.LimiterDesigns(), textbook.LimiterDesign{Name: "**Weir**, `window`", New: weirLimit})
	var all []limiterFigures
	for _, d := range designs {
		f := limiterFigures{name: d.Name}
		var denied, asked int
		for seed := range uint64(200) {
			most, unjust, requests := attack(d.New(allowed, period), schedule(seed))
			f.most = max(f.most, most)
			denied, asked = denied+unjust, asked+requests
		}
		f.unjust = float64(denied) / float64(asked)
		f.bytes = limiterMemory(d)
		at, l := time.Duration(0), d.New(allowed, period)
		f.decision = time.Duration(testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				at += 9 * time.Millisecond // somewhat more than allowed
				l.Allow(at)
			}
		}).NsPerOp())
		all = append(all, f)
	}
	return all
}

// schedule returns the times of requests: bursts, pauses, and steady streams in
// random turns, over a minute.
func schedule(seed uint64) (times []time.Duration) {
	r := rand.New(rand.NewPCG(seed, 7))
	for at := time.Duration(0); at < time.Minute; {
		switch r.IntN(3) {
		case 0:
			for range r.IntN(2 * allowed) {
				at += time.Duration(r.IntN(100)) * time.Microsecond
				times = append(times, at)
			}
		case 1:
			at += time.Duration(r.Int64N(int64(2 * period)))
		case 2:
			gap := time.Duration(r.Int64N(int64(3*period/allowed))) + 1
			for range r.IntN(2 * allowed) {
				at += gap
				times = append(times, at)
			}
		}
	}
	return times
}

// attack returns the most requests that a limiter admits in any period. It also returns how many requests it denies
// although it admitted fewer than allowed in the period before.
func attack(l textbook.Limiter, times []time.Duration) (most, unjust, asked int) {
	var admitted []time.Duration
	first := 0 // of those within the period before
	for _, at := range times {
		for first < len(admitted) && at-admitted[first] >= period {
			first++
		}
		switch within := len(admitted) - first; {
		case l.Allow(at):
			admitted = append(admitted, at)
			most = max(most, within+1)
		case within < allowed:
			unjust++
		}
	}
	return most, unjust, len(times)
}

type weirLimiter struct {
	plan  *limit.Plan
	state *limit.State
}

func (w weirLimiter) Allow(at time.Duration) bool {
	return w.plan.Take(w.state, int64(at), 1).Allowed
}

func weirLimit(n int, period time.Duration) textbook.Limiter {
	plan, err := limit.New(limit.Limit{N: uint64(n), Per: period, Burst: uint64(n)})
	if err != nil {
		log.Fatal(err)
	}
	return weirLimiter{plan, new(limit.State)}
}

// limiterMemory is what one limiter takes that has admitted all it may.
func limiterMemory(d textbook.LimiterDesign) int64 {
	const limiters = 1000
	kept := make([]textbook.Limiter, limiters)
	before := machine.Heap()
	for i := range kept {
		kept[i] = d.New(allowed, period)
		for at := range 2 * allowed {
			kept[i].Allow(period + time.Duration(at)*time.Microsecond)
		}
	}
	bytes := (machine.Heap() - before) / limiters
	runtime.KeepAlive(kept)
	return bytes
}

// replaceTables replaces what is between <!-- NAME --> and <!-- end --> on a page.
func replaceTables(path string, tables map[string]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made := string(text)
	for name, table := range tables {
		before, rest, found := strings.Cut(made, "<!-- "+name+" -->\n")
		_, after, ended := strings.Cut(rest, "<!-- end -->")
		if !found || !ended {
			return fmt.Errorf("%s has no <!-- %s --> with an <!-- end -->", path, name)
		}
		made = before + "<!-- " + name + " -->\n" + table + "<!-- end -->" + after
	}
	return os.WriteFile(path, []byte(made), 0o644)
}
