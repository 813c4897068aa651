package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Format names how the lines of a log are written.
type Format string

// The formats. Auto looks at the first lines of the log.
const (
	Auto Format = "auto"
	CLF  Format = "clf"  // Apache and nginx, common or combined
	S3   Format = "s3"   // Amazon S3
	W3C  Format = "w3c"  // columns that a #Fields line names: Amazon CloudFront, IIS
	JSON Format = "json" // one object per line
	TSV  Format = "tsv"  // epoch count [key]
)

// Formats lists all formats, in the order in which they are offered.
var Formats = []Format{Auto, CLF, S3, W3C, JSON, TSV}

// formats says how the lines of each format are read.
var formats = map[Format]struct {
	fields []string // that lines may have, by their places in line.fields; nil: any
	keys   []string // templates that are used if none are named
	parser func(p *plan) parser
}{
	CLF:  {clfFieldNames[:], pageKeys, newCLFParser},
	S3:   {s3FieldNames, pageKeys, func(*plan) parser { return &s3Parser{} }},
	W3C:  {nil, pageKeys, newW3CParser},
	JSON: {nil, []string{"{key}"}, newJSONParser},
	TSV:  {[]string{"key"}, []string{"{key}"}, func(*plan) parser { return tsvParser{} }},
}

var pageKeys = []string{"url:{path}", "host:{host}"}

// detectLines is how many lines at the start of a log tell its format.
const detectLines = 100

// detect returns the format that most of the first lines of text are written in. Lines that no format can read are JSON if they are
// objects, so that their reasons speak of JSON. Other text is read as CLF, and reasons say why the first line fits no format.
func detect(text []byte) (best Format, reasons string) {
	best = CLF
	most, objects := 0, 0
	var why []string
	for _, f := range Formats[1:] {
		plan, _ := newPlan(f, nil)
		plan.columns = columnsOf(text)
		p, l := plan.newParser(), plan.newLine()
		good, reason := 0, ""
		for b := range firstLines(text) {
			err := p.parse(b, &l)
			switch {
			case err == nil:
				good++
			case reason == "" && len(bytes.TrimSpace(b)) > 0 && !errors.Is(err, errComment):
				reason = err.Error()
			}
			if f == JSON && !errors.Is(err, errNotJSON) {
				objects++
			}
		}
		if good > most {
			best, most = f, good
		}
		why = append(why, fmt.Sprintf("%s (%s)", f, reason))
	}
	switch {
	case most > 0:
		return best, ""
	case objects > 0:
		return JSON, ""
	}
	return best, strings.Join(why, ", ")
}

// firstLines yields the lines by which a format is detected.
func firstLines(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 0; i < detectLines && len(text) > 0; i++ {
			var b []byte
			b, text, _ = bytes.Cut(text, []byte("\n"))
			if len(b) <= MaxLineBytes && !yield(trimEnd(b)) {
				return
			}
		}
	}
}

// maxFields is how many of the fields of a log a message lists.
const maxFields = 40

// fieldsOf lists the fields that the first lines of a log have, as {a} {b}, for messages.
func (p *plan) fieldsOf(text []byte) string {
	var names []string
	all := formats[p.format].fields
	if p.format == W3C {
		for name, columns := range columnOf {
			if slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(p.columns, c) }) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return braced(append(names, p.columns...))
	}
	if all == nil {
		for b := range firstLines(text) {
			var fields map[string]json.RawMessage
			if json.Unmarshal(b, &fields) != nil {
				continue
			}
			for name, raw := range fields {
				if !strings.ContainsAny(string(raw[:1]), "{[n") && !slices.Contains(names, name) && len(names) < maxFields {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		return braced(names)
	}
	var every template
	for _, name := range all {
		every.parts = append(every.parts, part{field: name})
	}
	plan, _ := newPlan(p.format, []template{every})
	reader, l := plan.newParser(), plan.newLine()
	has := make([]bool, len(all))
	for b := range firstLines(text) {
		if reader.parse(b, &l) != nil {
			continue
		}
		for i := range all {
			has[i] = has[i] || l.fields[i] != nil
		}
	}
	for i, name := range all {
		if has[i] {
			names = append(names, name)
		}
	}
	return braced(names)
}

func braced(names []string) string {
	if len(names) == 0 {
		return "no fields"
	}
	return Printable("{" + strings.Join(names, "} {") + "}")
}

// trimEnd takes the carriage return of a CRLF line away.
func trimEnd(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\r")) }

// A plan is how one replay reads its lines: the format and the templates. It does not change, so all workers share it.
type plan struct {
	format    Format
	templates []template
	bound     []boundTemplate // parallel to templates
	fields    []string        // by their places in line.fields
	columns   []string        // of a W3C log
	has       string          // the fields of the first lines, for messages
	reasons   string          // why they fit no format; "": they do

	site   *Site                     // makes the keys, in place of templates; nil: they do
	places [len(requestFields)][]int // in line.fields, of the fields of a Request that are read
}

// newPlan binds templates, or the format's own if there are none, to the fields of a format.
func newPlan(format Format, templates []template) (*plan, error) {
	f := formats[format]
	p := &plan{format: format, templates: templates, fields: f.fields}
	if len(templates) == 0 {
		var err error
		if p.templates, err = parseTemplates(f.keys); err != nil {
			return nil, err
		}
	}
	for _, t := range p.templates {
		bound, unknown := t.bind(p.place)
		if unknown != "" {
			return nil, fmt.Errorf("key template %s: a %s log has no field {%s}; it has %s", t.text, format, unknown, braced(p.fields))
		}
		p.bound = append(p.bound, bound)
	}
	return p, nil
}

func (p *plan) newParser() parser { return formats[p.format].parser(p) }

func (p *plan) newLine() line { return line{fields: make([][]byte, len(p.fields))} }

// MaxLineBytes is the longest line that is read. A longer one is malformed.
const MaxLineBytes = 256 << 10

// MaxWeight is the largest count of one line. It keeps the total of 2^31 lines from overflowing.
const MaxWeight = 1 << 32

// A line is one parsed line of a log. Its fields are views into the chunk, or into the parser's memory: they live until the next
// line is parsed.
type line struct {
	at int64  // Unix seconds, rounded down
	n  uint64 // hits this line stands for; 0 is a line without hits

	status  uint64 // of its answer, if Options.Outcomes asks for it; 0: it has none
	visitor uint64 // of a page view of a Site; 0: it is none

	fields [][]byte // that templates ask for, by place; nil: this line does not have the field
}

// A parser reads lines of one format. One worker uses it, so it may cache what lines have in common.
type parser interface {
	// parse fills l from b, which has no line end. The error says why b is malformed: one of a fixed set, so that it costs nothing.
	parse(b []byte, l *line) error
}

// Why a line is malformed.
var (
	errLongLine    = errors.New("longer than 256 KiB")
	errNoHost      = errors.New("no host before the first space")
	errNoTime      = errors.New("no time like [10/Oct/2000:13:55:36 -0700]")
	errNoRequest   = errors.New(`no "request" in quotes after the time`)
	errNoStatus    = errors.New("no status after the request")
	errNotJSON     = errors.New("not a JSON object")
	errNoTimeField = errors.New("no time in a field " + timeFields)
	errBadTime     = errors.New("the time is not RFC 3339, Unix seconds or milliseconds, or a log time")
	errTimeRange   = errors.New("the time is before 1970 or after 2514")
	errBadWeight   = errors.New("the count is not a whole number from 0 to 4294967296")
	errNotTSV      = errors.New("not `epoch count [key]`")
)

// tsvParser reads `epoch count [key]`. A line with a tab is cut at tabs, and then the key may hold spaces; any other line is cut at
// spaces. What follows the key is ignored.
type tsvParser struct{}

func (tsvParser) parse(b []byte, l *line) error {
	cut := word
	if bytes.IndexByte(b, '\t') >= 0 {
		cut = cell
	}
	epoch, rest := cut(b)
	count, rest := cut(rest)
	if epoch == nil || count == nil {
		return errNotTSV
	}
	var err error
	if l.at, err = parseEpoch(epoch); err != nil {
		return err
	}
	if l.n, err = parseWeight(count); err != nil {
		return err
	}
	l.fields[0], _ = cut(rest) // the key
	return nil
}

// cell cuts the text before the first tab off b. It is nil if it is empty.
func cell(b []byte) (c, rest []byte) {
	c, rest, _ = bytes.Cut(b, []byte("\t"))
	return known(bytes.TrimSpace(c)), rest
}

// Lines takes what is in a log from Scan.
type Lines interface {
	// NewWorker makes what one goroutine does with its parts of the log.
	NewWorker() LineWorker
	// Take takes the parts in the order of the log, from one goroutine. An error ends the scan.
	Take(part any) error
}

// A LineWorker takes the lines of some parts of the log, in their order, from one goroutine.
type LineWorker interface {
	// Line takes a line that stands for n > 0 requests at a time in Unix seconds, and the keys that the templates make of it, if
	// any. It must not keep them. status is of the answer, if Options.Outcomes asks for it; 0: it has none.
	Line(at int64, n, status uint64, keys [][]byte) error
	// Part ends a part: its result goes to Take.
	Part() any
}

// Scan reads the files of o as Run does, and gives their lines to lines in place of counting their keys. The Top of its report has
// the templates, and how many requests have no key of each, but no keys. Follow and To of o are not used.
func Scan(ctx context.Context, o Options, lines Lines) (*Report, error) {
	o.To, o.Follow, o.FromEnd, o.Status = nil, false, false, nil
	o = o.withDefaults()
	templates, err := o.prepare()
	if err != nil {
		return nil, err
	}
	p := newPipeline(&o, templates, nil)
	p.lines = lines
	return p.finish(ctx)
}

// lineSink gives lines to a LineWorker.
type lineSink struct{ LineWorker }

func (s *lineSink) line(l *line, keys [][]byte) error { return s.Line(l.at, l.n, l.status, keys) }

func (s *lineSink) flush(c *chunk) { c.part = s.Part() }

func (*lineSink) close() error { return nil }

// MaxTemplates is how many key templates one replay takes.
const MaxTemplates = 16

// A template makes a key of a line: literal text and fields, `url:{path}`.
type template struct {
	text  string
	parts []part
}

// A part is literal text, or the name of a field.
type part struct {
	literal string
	field   string // empty for literal text
}

// parseTemplate reads text like `status:{status}`. A template without a field is one fixed key for every line.
func parseTemplate(text string) (template, error) {
	t := template{text: text}
	if text == "" {
		return t, fmt.Errorf("an empty key template: write for example url:{path}")
	}
	for rest := text; rest != ""; {
		literal, after, open := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return t, fmt.Errorf("%s: a } without a { before it", text)
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !open {
			break
		}
		field, after, closed := strings.Cut(after, "}")
		if !closed {
			return t, fmt.Errorf("%s: a { without a } after it", text)
		}
		if field == "" || strings.Contains(field, "{") {
			return t, fmt.Errorf("%s: between { and } stands the name of a field, for example {path}", text)
		}
		t.parts = append(t.parts, part{field: field})
		rest = after
	}
	return t, nil
}

// parseTemplates reads all templates of a replay. Their keys must begin differently: the report lists keys by template.
func parseTemplates(texts []string) ([]template, error) {
	if len(texts) > MaxTemplates {
		return nil, fmt.Errorf("%d key templates: at most %d", len(texts), MaxTemplates)
	}
	templates := make([]template, 0, len(texts))
	for _, text := range texts {
		t, err := parseTemplate(text)
		if err != nil {
			return nil, err
		}
		for _, other := range templates {
			if strings.HasPrefix(t.prefix(), other.prefix()) || strings.HasPrefix(other.prefix(), t.prefix()) {
				return nil, fmt.Errorf("the keys of %s and %s look alike: begin each template with a word of its own, for example url:{path} and host:{host}", other.text, t.text)
			}
		}
		templates = append(templates, t)
	}
	return templates, nil
}

// prefix is the literal text that every key of t begins with.
func (t template) prefix() string {
	if t.parts[0].field == "" {
		return t.parts[0].literal
	}
	return ""
}

// A boundTemplate knows where its fields are in line.fields.
type boundTemplate []boundPart

type boundPart struct {
	literal string
	place   int // in line.fields; -1 for literal text
}

// bind finds the fields of t with place, which returns -1 for an unknown one.
func (t template) bind(place func(name string) int) (bound boundTemplate, unknown string) {
	for _, p := range t.parts {
		at := -1
		if p.field != "" {
			if at = place(p.field); at < 0 {
				return nil, p.field
			}
		}
		bound = append(bound, boundPart{literal: p.literal, place: at})
	}
	return bound, ""
}

// appendKey appends the key that t makes of fields. It returns false if the line lacks a field: then it has no key by this template.
func (t boundTemplate) appendKey(key []byte, fields [][]byte) ([]byte, bool) {
	for _, p := range t {
		if p.place < 0 {
			key = append(key, p.literal...)
			continue
		}
		value := fields[p.place]
		if value == nil {
			return key, false
		}
		key = append(key, value...)
	}
	return key, true
}

// uses reports whether the plan reads a field at one of the places.
func (p *plan) uses(places ...int) bool {
	reads := func(at int) bool { return slices.Contains(places, at) }
	return slices.ContainsFunc(p.places[:], func(field []int) bool { return slices.ContainsFunc(field, reads) }) ||
		slices.ContainsFunc(p.bound, func(t boundTemplate) bool {
			return slices.ContainsFunc(t, func(p boundPart) bool { return reads(p.place) })
		})
}
