package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// A collector brings together what the workers found, in the order of the log.
// It belongs to one goroutine.
type collector struct {
	opts      *Options
	lines     Lines          // of Scan; nil for Run
	countKeys map[string]int // to the index in counted

	files   []fileTotals
	all     seconds   // every line once
	counted []seconds // by index in Options.CountKeys
	plan    *plan     // nil before the first line
	keyless []uint64  // by template
	refused uint64
	sample  []malformedLine
}

// fileTotals is what was read of one file.
type fileTotals struct {
	newlines  int // line ends: the number of the next line, from 0
	lines     int // good ones
	hits      uint64
	late      int
	ahead     int
	malformed int
	newest    int64 // of the lines so far; math.MinInt64 before the first
}

// malformedLine is one of those that are shown.
type malformedLine struct {
	file int
	badLine
}

func (c *collector) begin(o *Options) {
	c.opts = o
	c.files = make([]fileTotals, len(o.Files))
	for i := range c.files {
		c.files[i].newest = math.MinInt64
	}
	c.counted = make([]seconds, len(o.CountKeys))
	c.countKeys = make(map[string]int, len(o.CountKeys))
	for i, key := range o.CountKeys {
		c.countKeys[key] = i
	}
}

// collect takes chunks in the order of the log, waits until each is parsed,
// and gives it back.
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
		f.lines += r.lines
		f.hits += r.n
		if r.at < f.newest {
			f.late += r.lines
		}
		f.newest = max(f.newest, r.at)
		if err := c.all.add(r.at, r.n); err != nil {
			return err
		}
	}
	for _, k := range chunk.counted {
		if err := c.counted[k.key].add(k.at, k.n); err != nil {
			return err
		}
	}
	for _, bad := range chunk.sample[:min(len(chunk.sample), sampleLines-len(c.sample))] {
		bad.line += f.newlines
		c.sample = append(c.sample, malformedLine{chunk.file, bad})
	}
	if chunk.part != nil {
		if err := c.lines.Take(chunk.part); err != nil {
			return err
		}
	}
	f.newlines += chunk.lines
	f.malformed += chunk.malformed
	f.ahead += chunk.ahead
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
	Lines     int     // good lines
	Hits      uint64  // that they stand for
	Late      int     // lines
	Malformed int     // lines
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
		s.Lines += f.lines
		s.Hits += f.hits
		s.Late += f.late
		s.Malformed += f.malformed
	}
	if newest, ok := c.all.newest(); ok {
		s.Newest = newest
		s.PerSecond = float64(c.all.count(newest, 60)) / 60
	}
	return s
}
