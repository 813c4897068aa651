package replay

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/window"
)

// A Time is a point in time that JSON carries as Unix seconds, as in the answers of a server.
type Time = api.Time

// A Report is what was found in the files. Totals, busiest windows and rates are exact; the top keys carry their bounds.
type Report struct {
	// StoppedEarly says why the files were not read to their end; empty: they were. What follows is about the lines before.
	StoppedEarly string `json:"stopped_early,omitempty"`

	Files  []FileReport `json:"files"`
	Format Format       `json:"format,omitempty"` // empty: there was no line
	Totals

	First *Time `json:"first,omitempty"` // the oldest hit
	Last  *Time `json:"last,omitempty"`  // the newest hit
	// SpanSeconds is the number of seconds from the first to the last one, both included.
	SpanSeconds int64 `json:"span_s"`

	Line    *Line  `json:"line,omitempty"` // the hits over time
	Busiest []Peak `json:"busiest"`        // the second, the minute, the 5 minutes
	Now     []Rate `json:"now"`            // up to the newest hit
	Top     []Top  `json:"top,omitempty"`

	// Views and Visitors are of the log of a site.
	Views    uint64        `json:"views,omitempty"`
	Visitors *api.Distinct `json:"visitors,omitempty"`

	// Refused are hits whose key is empty, longer than a key may be, or "*". They are in the totals.
	Refused uint64 `json:"refused"`
	// EvictedKeys and EvictedHits were dropped to stay within the memory budget: then top keys may be missing or too low.
	EvictedKeys uint64 `json:"evicted_keys"`
	EvictedHits uint64 `json:"evicted_hits"`

	MalformedLines []MalformedLine `json:"malformed_lines,omitempty"` // the first five
	// Sent is the server's answer to all batches, when there is a server.
	Sent *client.Receipt `json:"sent,omitempty"`
	// Warning says that no line was read, or what to do about hits that the server did not count.
	Warning string `json:"warning,omitempty"`
}

// Totals are the numbers of lines, and of the hits that they stand for.
type Totals struct {
	Lines     int    `json:"lines"` // good lines
	Hits      uint64 `json:"hits"`
	Late      int    `json:"late"`      // lines older than a line before them in their file
	Ahead     int    `json:"ahead"`     // lines from the future: not counted
	Malformed int    `json:"malformed"` // lines
}

func (t *Totals) add(more Totals) {
	t.Lines += more.Lines
	t.Hits += more.Hits
	t.Late += more.Late
	t.Ahead += more.Ahead
	t.Malformed += more.Malformed
}

// FileReport is what was read of one file.
type FileReport struct {
	Name string `json:"name"`
	Totals
	// Problem says why the file was not read, or not to its end.
	Problem string `json:"problem,omitempty"`
}

// A Line is the exact hits of all lines in adjoining parts of time, at most 120: (from, from+step], ... The last part may end after
// the newest hit.
type Line struct {
	From        Time     `json:"from"`
	StepSeconds int64    `json:"step_s"`
	Hits        []uint64 `json:"hits"`
}

// A Peak is the window of a length with the most hits: (at-window, at].
type Peak struct {
	WindowSeconds int64  `json:"window_s"`
	At            Time   `json:"at"`
	Hits          uint64 `json:"hits"`
}

// A Rate is the hits per second over the window up to the newest hit.
type Rate struct {
	WindowSeconds int64   `json:"window_s"`
	Hits          uint64  `json:"hits"`
	PerSecond     float64 `json:"per_second"`
}

// Top lists the keys of a template with the most hits.
type Top struct {
	Template string   `json:"template"`
	Keys     []TopKey `json:"keys"`
	// Of is what shares are of: all hits, or the views of a site, with those that were filtered for the reasons of these.
	Of uint64 `json:"of"`
	// Keyless are the hits of lines that lack a field of the template.
	Keyless uint64 `json:"keyless"`
}

// A TopKey is a key and its hits over the whole log: lower <= true <= upper.
type TopKey struct {
	Key   string `json:"key"`
	Hits  uint64 `json:"estimate"`
	Lower uint64 `json:"lower"`
	Upper uint64 `json:"upper"`
}

// MalformedLine is one line that could not be read.
type MalformedLine struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // from 1
	Reason string `json:"reason"`
	Text   string `json:"text"` // its first 160 bytes
}

var (
	busiestWindows = []int64{1, 60, 300}
	rateWindows    = []int64{60, 300}
)

// report is called when the run is over.
func (p *pipeline) report() (*Report, error) {
	r := &Report{Busiest: []Peak{}, Now: []Rate{}, Refused: p.refused, MalformedLines: p.sample}
	if p.stopped != nil {
		r.StoppedEarly = p.stopped.Error()
	}
	for i, f := range p.files {
		if err := p.problems[i]; err != nil {
			f.Problem = err.Error()
		}
		r.Files = append(r.Files, f.FileReport)
		r.Totals.add(f.Totals)
	}
	if p.plan != nil {
		r.Format = p.plan.format
	}
	if p.sent != nil {
		r.Sent = &p.sent.receipt
	}
	oldest, ok := p.all.oldest()
	if !ok {
		if r.Lines == 0 && r.Malformed == 0 && r.Ahead == 0 {
			r.Warning = "the log is empty: no line was read"
		}
		return r, p.useless(r)
	}
	newest, _ := p.all.newest()
	p.span(r, oldest, newest)
	if p.sent != nil && r.Sent.Counted > 0 && r.Sent.TooLate > 0 {
		r.Warning = fmt.Sprintf("%s too late for the server: %s", units.Plural(r.Sent.TooLate, "hit"), p.keepLonger(oldest))
	}
	if p.sent != nil && r.Sent.Again > 0 {
		r.Warning = fmt.Sprintf("the server took %s of these files within the last ten minutes, and did not count them again: --again counts them again", units.Plural(r.Sent.Again, "hit"))
	}
	switch {
	case p.engine != nil:
		if err := p.top(r); err != nil {
			return r, err
		}
	case p.lines != nil:
		for i, t := range p.plan.templates {
			r.Top = append(r.Top, Top{Template: t.text, Keyless: p.keyless[i], Of: r.Hits})
		}
	}
	return r, p.useless(r)
}

// useless returns why a replay without a failure was in vain.
func (p *pipeline) useless(r *Report) error {
	switch {
	case r.Lines == 0 && r.Malformed > 0 && p.plan.reasons != "":
		return fmt.Errorf("no line fits a format: %s", p.plan.reasons)
	case r.Lines == 0 && r.Malformed > 0:
		return fmt.Errorf("no line could be read as %s: the first malformed lines say why; --format reads them as another format", r.Format)
	case r.Lines == 0 && r.Ahead > 0:
		return fmt.Errorf("%s from the future: raise --max-ahead, or check the clock", allLines(r.Ahead))
	case p.sent != nil && r.Sent.Counted == 0 && r.Sent.TooLate > 0 && p.stopped == nil:
		return fmt.Errorf("no hit was counted: %s too late for the server: %s", units.Plural(r.Sent.TooLate, "hit"), p.keepLonger(r.First.Unix()))
	case p.sent != nil && r.Sent.Counted == 0 && r.Sent.Rejected > 0 && p.stopped == nil:
		return fmt.Errorf("no hit was counted: %s", *r.Sent)
	case p.stopped != nil || r.Hits == 0:
		return nil
	case p.sent != nil && sum(p.keyless) == r.Hits*uint64(len(p.keyless)):
		return fmt.Errorf("no hit was sent: no line has a key of %s; the lines have %s: name a field with --key, or a text such as --key log:all for all lines", p.plan.templates[0].text, p.plan.has)
	}
	for i, n := range p.keyless {
		if n < r.Hits {
			continue
		}
		if text := p.plan.templates[i].text; len(p.opts.Keys) > 0 {
			return fmt.Errorf("key template %s: no line has such a field; the lines have %s", text, p.plan.has)
		} else if r.Warning == "" && r.Format != TSV {
			r.Warning = fmt.Sprintf("no line has a key of %s; the lines have %s: name one with --key", text, p.plan.has)
		}
	}
	return nil
}

func allLines(n int) string {
	if n == 1 {
		return "the only line is"
	}
	return "all " + units.Plural(n, "line") + " are"
}

// hoursKept is for how long a server's history keeps hours by default.
const hoursKept = 400 * 24 * time.Hour

// keepLonger says which retention keeps hits since oldest. It is rounded up to hours, or to days, for the time until the server
// runs.
func (p *pipeline) keepLonger(oldest int64) string {
	unit := time.Hour
	age := p.opts.Now().Sub(time.Unix(oldest, 0)) + unit
	if age > 2*24*unit {
		unit *= 24
	}
	age = (age + unit - 1).Truncate(unit)
	if age > window.MaxSeconds*time.Second {
		return "no retention reaches back so far: start it with --clock event, where now is the newest hit"
	}
	what := fmt.Sprintf("start it with --retention of at least %s", units.FormatDuration(age))
	if age > hoursKept {
		what += fmt.Sprintf(", or with --history-keep %s/%s to have them in its history alone", units.FormatDuration(hoursKept), units.FormatDuration(age))
	}
	return what
}

func sum(all []uint64) (total uint64) {
	for _, n := range all {
		total += n
	}
	return total
}

func (p *pipeline) span(r *Report, oldest, newest int64) {
	first, last := unix(oldest), unix(newest)
	r.Line = p.all.line()
	r.First, r.Last, r.SpanSeconds = &first, &last, newest-oldest+1
	for _, w := range busiestWindows {
		peak := p.all.busiest(w)
		r.Busiest = append(r.Busiest, Peak{WindowSeconds: w, At: unix(peak.at), Hits: peak.n})
	}
	for _, w := range rateWindows {
		n := p.all.count(newest, w)
		r.Now = append(r.Now, Rate{WindowSeconds: w, Hits: n, PerSecond: float64(n) / float64(w)})
	}
}

func unix(at int64) Time { return Time{Time: time.Unix(at, 0).UTC()} }

// top asks the engine for the keys of each template with the most hits.
func (p *pipeline) top(r *Report) error {
	stats := p.engine.Stats()
	r.EvictedKeys, r.EvictedHits = stats.EvictedKeys, stats.EvictedHits
	filtered, err := p.views(r)
	if err != nil {
		return err
	}
	for i, t := range p.plan.templates {
		keys, err := p.engine.Top(p.second, time.Second, p.opts.Top, t.prefix())
		if err != nil {
			return fmt.Errorf("top keys of %s: %w", t.text, err)
		}
		top := Top{Template: t.text, Keys: []TopKey{}, Keyless: p.keyless[i], Of: r.Hits}
		if site := p.opts.Site; site != nil {
			if top.Of = r.Views; t.prefix() == site.Filtered+":" {
				top.Of += filtered
			}
		}
		for _, k := range keys {
			top.Keys = append(top.Keys, TopKey{Key: k.Key, Hits: k.Estimate, Lower: k.Lower, Upper: k.Upper})
		}
		r.Top = append(r.Top, top)
	}
	return nil
}

// views notes the views and visitors of a site, and returns how many requests for its pages were filtered.
func (p *pipeline) views(r *Report) (filtered uint64, err error) {
	site := p.opts.Site
	if site == nil {
		return 0, nil
	}
	views, err := p.engine.CountAt(p.second, site.Views, time.Second)
	bots, failed := p.engine.CountAt(p.second, site.Filtered, time.Second)
	set, _, unread := p.engine.Distinct(p.second, site.Views, time.Second)
	r.Views, r.Visitors = views.Estimate, &api.Distinct{Upper: new(uint64)}
	if set != nil {
		c := set.Count(p.second.Unix() - 1)
		*r.Visitors = api.Distinct{Estimate: c.Estimate, Error: c.Error, Lower: c.Lower, Upper: &c.Upper}
	}
	return bots.Estimate, cmp.Or(err, failed, unread)
}

// Print writes the report for a person. Text of the log can't control the terminal.
func (r *Report) Print(w io.Writer) error {
	p := printer{NewTable(w)}
	p.totals(r)
	p.peaks(r)
	p.top(r)
	p.Malformed(r.MalformedLines)
	return p.Flush()
}

type printer struct{ *Table }

// A Table is an answer for people: rows whose cells stand below each other.
type Table struct{ *tabwriter.Writer }

// NewTable returns a table that Flush writes to w.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row writes one line, by Printable: no cell controls the terminal. Its error, if any, comes back from Flush.
func (t *Table) Row(cells ...string) {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = Printable(cell)
	}
	fmt.Fprintln(t, strings.Join(safe, "\t"))
}

// Log writes what was read, and what was not.
func (t *Table) Log(stoppedEarly string, files []FileReport, format Format) {
	if stoppedEarly != "" {
		t.Row("stopped early: " + stoppedEarly)
		t.Row("what follows is about the lines read before that")
		t.Row()
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	log := strings.Join(names, ", ")
	if format != "" {
		log += fmt.Sprintf(" (%s)", format)
	}
	t.Row("log", log)
	for _, f := range files {
		if f.Problem != "" {
			t.Row("problem", f.Name+": "+f.Problem)
		}
	}
}

// Malformed writes the first malformed lines.
func (t *Table) Malformed(lines []MalformedLine) {
	if len(lines) == 0 {
		return
	}
	t.Row()
	t.Row("the first malformed lines:")
	for _, m := range lines {
		t.Row(fmt.Sprintf("  %s:%d: %s: %s", m.File, m.Line, m.Reason, m.Text))
	}
}

func (p printer) totals(r *Report) {
	p.Log(r.StoppedEarly, r.Files, r.Format)
	p.Row("hits", units.Grouped(r.Hits)+" in "+units.Plural(r.Lines, "line"))
	if r.First != nil {
		p.Row("span", fmt.Sprintf("%s to %s (%s)", stamp(*r.First), stamp(*r.Last), units.FormatDuration(time.Duration(r.SpanSeconds)*time.Second)))
	}
	if r.Visitors != nil {
		p.Row("views", units.Grouped(r.Views)+" by "+r.Visitors.String()+" visitors")
	}
	p.Row("late", units.Plural(r.Late, "line")+" older than a line before")
	p.Row("malformed", units.Plural(r.Malformed, "line"))
	if r.Ahead > 0 {
		p.Row("ahead", units.Plural(r.Ahead, "line")+" from the future: not counted")
	}
	if r.Refused > 0 {
		p.Row("refused", units.Plural(r.Refused, "hit")+" whose key is empty, longer than 512 bytes or *: in no key")
	}
	if r.EvictedKeys > 0 {
		p.Row("evicted", fmt.Sprintf("%s with %s, to stay within the memory budget: raise --memory", units.Plural(r.EvictedKeys, "key"), units.Plural(r.EvictedHits, "hit")))
	}
	if s := r.Sent; s != nil {
		p.Row("sent", s.String())
	}
	if r.Warning != "" {
		p.Row("warning", r.Warning)
	}
}

func (p printer) peaks(r *Report) {
	if r.First == nil {
		return
	}
	p.Row()
	for _, b := range r.Busiest {
		p.Row("busiest "+spell(b.WindowSeconds), units.Plural(b.Hits, "hit"), "up to "+stamp(b.At))
	}
	for _, n := range r.Now {
		p.Row("rate now", perSecond(n.PerSecond)+"/s", "over the last "+spell(n.WindowSeconds))
	}
}

func (p printer) top(r *Report) {
	for _, t := range r.Top {
		p.Row()
		if len(t.Keys) == 0 {
			p.Row("top of "+t.Template, "no line has such a key")
			continue
		}
		p.Row("HITS", "SHARE", "TOP OF "+t.Template)
		for _, k := range t.Keys {
			hits := units.Grouped(k.Hits)
			if k.Lower != k.Upper {
				hits += fmt.Sprintf(" (%s to %s)", units.Grouped(k.Lower), units.Grouped(k.Upper))
			}
			p.Row(hits, t.share(k.Hits), k.Key)
		}
		if t.Keyless > 0 {
			p.Row(units.Grouped(t.Keyless), t.share(t.Keyless), "(no such key in the line)")
		}
	}
}

func (t *Top) share(n uint64) string {
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(t.Of, 1)))
}

func stamp(t Time) string { return t.UTC().Format(time.RFC3339) }

func spell(windowSeconds int64) string {
	switch windowSeconds {
	case 1:
		return "second"
	case 60:
		return "minute"
	}
	return fmt.Sprintf("%d minutes", windowSeconds/60)
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 2, 64) }

// Printable returns text that strangers chose, such as a key of a log, with control characters and broken UTF-8 as escapes.
func Printable(s string) string {
	clean := true
	for i, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
