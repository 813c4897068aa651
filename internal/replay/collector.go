package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// A collector adds up what the workers found, in the order of the log. It belongs to one goroutine.
type collector struct {
	opts  *Options
	lines Lines // of Scan; nil for Run

	files   []fileTotals
	all     seconds  // every line once
	plan    *plan    // nil before the first line
	keyless []uint64 // by template
	refused uint64
	sample  []MalformedLine
}

// fileTotals is what was read of one file.
type fileTotals struct {
	FileReport
	newlines int
	newest   int64 // of the lines so far; math.MinInt64 before the first
}

func (c *collector) begin(o *Options) {
	c.opts = o
	c.files = make([]fileTotals, len(o.Files))
	for i := range c.files {
		c.files[i].Name, c.files[i].newest = o.Files[i], math.MinInt64
	}
}

// collect takes chunks in the order of the log, waits until each is parsed, and gives it back.
func (c *collector) collect(order <-chan *chunk, free chan<- *chunk) error {
	var tick <-chan time.Time
	if c.opts.Status != nil {
		ticker := time.NewTicker(c.opts.StatusEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case chunk, ok := <-order:
			if !ok {
				return nil
			}
			<-chunk.done
			err := c.chunk(chunk)
			free <- chunk
			if err != nil {
				return err
			}
		case <-tick:
			c.opts.Status(c.status())
		}
	}
}

func (c *collector) chunk(chunk *chunk) error {
	f := &c.files[chunk.file]
	for _, r := range chunk.runs {
		f.Lines += r.lines
		f.Hits += r.n
		if r.at < f.newest {
			f.Late += r.lines
		}
		f.newest = max(f.newest, r.at)
		if err := c.all.add(r.at, r.n); err != nil {
			return err
		}
	}
	for _, bad := range chunk.sample[:min(len(chunk.sample), sampleLines-len(c.sample))] {
		bad.File, bad.Line = f.Name, bad.Line+f.newlines
		c.sample = append(c.sample, bad)
	}
	if chunk.part != nil {
		if err := c.lines.Take(chunk.part); err != nil {
			return err
		}
	}
	f.newlines += chunk.lines
	f.Malformed += chunk.malformed
	f.Ahead += chunk.ahead
	c.refused += chunk.refused
	c.plan = chunk.plan
	c.keyless = append(c.keyless, make([]uint64, len(chunk.keyless)-len(c.keyless))...)
	for i, n := range chunk.keyless {
		c.keyless[i] += n
	}
	return nil
}

// A Status is the state of a replay while it runs.
type Status struct {
	Totals
	Newest    int64   // Unix seconds of the newest hit; 0 before the first
	PerSecond float64 // over the minute up to the newest hit
}

// String is one line for a person.
func (s Status) String() string {
	newest := "no hit yet"
	if s.Newest > 0 {
		newest = "newest " + stamp(unix(s.Newest))
	}
	return fmt.Sprintf("%s hits, %s/s, %s, %s late, %s malformed",
		units.Grouped(s.Hits), perSecond(s.PerSecond), newest, units.Grouped(uint64(s.Late)), units.Grouped(uint64(s.Malformed)))
}

func (c *collector) status() (s Status) {
	for _, f := range c.files {
		s.add(f.Totals)
	}
	if newest, ok := c.all.newest(); ok {
		s.Newest = newest
		s.PerSecond = float64(c.all.count(newest, 60)) / 60
	}
	return s
}

// MaxSeconds is how many different seconds with hits a replay keeps: 2^26, two years without a quiet second, in 1 GiB.
const MaxSeconds = 1 << 26

var errTooManySeconds = errors.New("the log has hits in more than 67,108,864 different seconds (two years without a quiet second): replay it in parts")

// seconds holds the hits of every second, exactly. Logs are nearly in order: a second is mostly the last one or the next one.
// Another one that is not known yet waits in late until there are enough to merge.
type seconds struct {
	sorted []second // by time, each time once
	late   map[int64]uint64
}

type second struct {
	at int64 // Unix seconds
	n  uint64
}

func (s *seconds) add(at int64, n uint64) error {
	if n == 0 {
		return nil
	}
	last := len(s.sorted) - 1
	if last+1+len(s.late) > MaxSeconds {
		return errTooManySeconds
	}
	if last < 0 || at > s.sorted[last].at {
		s.sorted = append(s.sorted, second{at, n})
		return nil
	}
	if s.sorted[last].at == at {
		s.sorted[last].n += n
		return nil
	}
	if i, ok := s.find(at); ok {
		s.sorted[i].n += n
		return nil
	}
	if s.late == nil {
		s.late = make(map[int64]uint64)
	}
	s.late[at] += n
	if len(s.late) > 4096+len(s.sorted)/8 {
		s.merge()
	}
	return nil
}

// find returns the place of the first second that is not before at.
func (s *seconds) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, at, func(s second, at int64) int { return cmp.Compare(s.at, at) })
}

// merge sorts the late seconds in.
func (s *seconds) merge() {
	if len(s.late) == 0 {
		return
	}
	for _, at := range slices.Sorted(maps.Keys(s.late)) {
		s.sorted = append(s.sorted, second{at, s.late[at]})
	}
	clear(s.late)
	slices.SortFunc(s.sorted, func(a, b second) int { return cmp.Compare(a.at, b.at) })
}

// count returns the hits in (at-w, at]. It takes time proportional to the number of seconds in the window.
func (s *seconds) count(at, w int64) (n uint64) {
	s.merge()
	from, _ := s.find(at - w + 1)
	for _, x := range s.sorted[from:] {
		if x.at > at {
			break
		}
		n += x.n
	}
	return n
}

// busiest returns the window of w seconds with the most hits, the first one of several with as many, by its last second. It is zero
// without hits.
func (s *seconds) busiest(w int64) (best second) {
	s.merge()
	var sum uint64
	from := 0
	for _, x := range s.sorted {
		sum += x.n
		for s.sorted[from].at <= x.at-w {
			sum -= s.sorted[from].n
			from++
		}
		if sum > best.n {
			best = second{x.at, sum}
		}
	}
	return best
}

// lineParts is how many parts a Line has at most.
const lineParts = 120

// line returns the hits in parts of a power of two seconds, aligned to the epoch; nil without hits.
func (s *seconds) line() *Line {
	oldest, ok := s.oldest()
	if !ok {
		return nil
	}
	newest, _ := s.newest()
	step := int64(1)
	for floor(newest, step)-floor(oldest, step) >= lineParts {
		step *= 2
	}
	first := floor(oldest, step)
	l := &Line{From: unix(first*step - 1), StepSeconds: step, Hits: make([]uint64, floor(newest, step)-first+1)}
	for _, x := range s.sorted {
		l.Hits[floor(x.at, step)-first] += x.n
	}
	return l
}

// floor is the number of the step that a second is in.
func floor(at, step int64) int64 {
	n := at / step
	if at%step < 0 {
		n--
	}
	return n
}

// newest and oldest return the ends of the span of the log; false without hits.
func (s *seconds) newest() (int64, bool) {
	if len(s.sorted) == 0 {
		return 0, false
	}
	return s.sorted[len(s.sorted)-1].at, true // never one of the late ones
}

func (s *seconds) oldest() (int64, bool) {
	s.merge()
	if len(s.sorted) == 0 {
		return 0, false
	}
	return s.sorted[0].at, true
}
