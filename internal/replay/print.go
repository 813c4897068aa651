package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/units"
)

// Print writes the report for a person. Text of the log can't control the terminal.
func (r *Report) Print(w io.Writer) error {
	p := printer{NewTable(w)}
	p.totals(r)
	p.peaks(r)
	p.counts(r)
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

func (p printer) counts(r *Report) {
	if len(r.Counts) == 0 {
		return
	}
	p.Row()
	p.Row("AT", "WINDOW", "KEY", "HITS")
	for _, c := range r.Counts {
		key := "(all lines)"
		if c.Key != "" {
			key = c.Key
		}
		p.Row(stamp(c.At), units.FormatDuration(time.Duration(c.WindowSeconds)*time.Second), key, units.Grouped(c.Hits))
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
			p.Row(hits, fmt.Sprintf("%.1f%%", 100*float64(k.Hits)/float64(r.Hits)), k.Key)
		}
		if t.Keyless > 0 {
			p.Row(units.Grouped(t.Keyless), fmt.Sprintf("%.1f%%", 100*float64(t.Keyless)/float64(r.Hits)), "(no such key in the line)")
		}
	}
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
