package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// The names of the fields for the time and for the count. The first one that a line has is used.
var (
	jsonTimeNames   = []string{"at", "time", "timestamp", "ts", "@timestamp", "time_iso8601", "time_local"}
	jsonWeightNames = []string{"n", "count"}
)

// timeFields lists jsonTimeNames, for messages.
const timeFields = "at, time, timestamp, ts, @timestamp, time_iso8601 or time_local"

// jsonParser reads one JSON object per line. Templates may name any of its top-level fields whose value is a string, a number or a
// boolean. If a name is there twice, the last value counts.
//
// {a.b} names a field of the object in field a. Of a list, fields have the first value if a name has a dot.
type jsonParser struct {
	names   []string // template fields; their places in line.fields
	deepest int      // how deep in objects a name may be: the most dots of one
	clock   clfClock
	scratch []byte // unescaped strings of the current line
	path    []byte // names of the fields around the current one, each with its dot

	timeNames, weightNames []string
	times, weights         []jsonValue // parallel to these
}

// A jsonValue is a scalar. text is nil if the field is missing, null, an object or a list.
type jsonValue struct {
	text   []byte
	quoted bool
}

func newJSONParser(p *plan) parser { return newObjectParser(p, jsonTimeNames, jsonWeightNames) }

func newObjectParser(p *plan, times, weights []string) *jsonParser {
	deepest := 0
	for _, name := range slices.Concat(p.fields, times, weights) {
		deepest = max(deepest, strings.Count(name, "."))
	}
	return &jsonParser{
		names: p.fields, deepest: deepest, timeNames: times, weightNames: weights, times: make([]jsonValue, len(times)), weights: make([]jsonValue, len(weights)),
	}
}

func (p *jsonParser) parse(b []byte, l *line) error {
	p.begin(l)
	if err := p.object(b, l); err != nil {
		return err
	}
	return p.end(l)
}

// begin forgets the line before.
func (p *jsonParser) begin(l *line) {
	clear(l.fields)
	clear(p.times)
	clear(p.weights)
	p.scratch, p.path = p.scratch[:0], p.path[:0]
}

// object takes the fields of an object.
func (p *jsonParser) object(b []byte, l *line) error {
	b = bytes.Trim(b, " \t\r\n") // the white space that JSON has
	if len(b) == 0 || b[0] != '{' || !json.Valid(b) {
		return errNotJSON
	}
	p.scan(b, l.fields, 0)
	return nil
}

// end finds out the time and the count.
func (p *jsonParser) end(l *line) (err error) {
	if l.at, err = p.time(); err != nil {
		return err
	}
	l.n, err = p.weight()
	return err
}

// scan visits the fields of b, a valid JSON object: that is why it has no error. depth is how many objects are around it.
func (p *jsonParser) scan(b []byte, fields [][]byte, depth int) {
	i := skipSpace(b, 1)
	for b[i] == '"' {
		end := stringEnd(b, i)
		name := p.unescape(b[i:end])
		i = skipSpace(b, end)
		i = skipSpace(b, i+1) // the colon
		end = valueEnd(b, i)
		p.field(name, b[i:end], fields, depth)
		i = skipSpace(b, end)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
}

func (p *jsonParser) field(name, raw []byte, fields [][]byte, depth int) {
	enter := raw[0] == '{' && depth < p.deepest
	if len(p.path) > 0 || enter {
		outer := len(p.path)
		p.path = append(p.path, name...)
		defer func() { p.path = p.path[:outer] }()
		if name = p.path; enter {
			p.path = append(p.path, '.')
			p.scan(raw, fields, depth+1)
			return
		}
	}
	if at, matters := p.places(name); matters {
		p.take(at, p.value(raw), fields)
	}
}

// places are where a field goes: in line.fields, times and weights; -1: it does not.
func (p *jsonParser) places(name []byte) (at [3]int, matters bool) {
	at = [3]int{index(p.names, name), index(p.timeNames, name), index(p.weightNames, name)}
	return at, at != [3]int{-1, -1, -1}
}

func (p *jsonParser) take(at [3]int, v jsonValue, fields [][]byte) {
	if at[0] >= 0 {
		fields[at[0]] = v.text
	}
	if at[1] >= 0 {
		p.times[at[1]] = v
	}
	if at[2] >= 0 {
		p.weights[at[2]] = v
	}
}

func (p *jsonParser) value(raw []byte) jsonValue {
	switch raw[0] {
	case '"':
		return jsonValue{text: p.unescape(raw), quoted: true}
	case '[':
		for raw[0] == '[' {
			raw = raw[skipSpace(raw, 1):]
		}
		if p.deepest == 0 || raw[0] == ']' {
			return jsonValue{}
		}
		return p.value(raw[:valueEnd(raw, 0)])
	case '{', 'n':
		return jsonValue{}
	}
	return jsonValue{text: raw}
}

func (p *jsonParser) time() (int64, error) {
	for _, v := range p.times {
		if v.text == nil {
			continue
		}
		if v.quoted {
			return parseTimeText(v.text, &p.clock)
		}
		return parseEpoch(v.text)
	}
	return 0, errNoTimeField
}

func (p *jsonParser) weight() (uint64, error) {
	for _, v := range p.weights {
		if v.text != nil {
			return parseWeight(v.text)
		}
	}
	return 1, nil
}

// unescape returns the text of a JSON string in quotes, never nil. Escapes are rare: then the text goes to p.scratch.
func (p *jsonParser) unescape(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return inner // cannot be: the line is valid JSON
	}
	from := len(p.scratch)
	p.scratch = append(p.scratch, s...)
	return slices.Clip(p.scratch[from:])
}

func index(names []string, name []byte) int {
	for i, n := range names {
		if n == string(name) {
			return i
		}
	}
	return -1
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// stringEnd returns the place after the string that begins at b[i].
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns the place after the value that begins at b[i].
func valueEnd(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = stringEnd(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the object around a number
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
		if depth == 0 && (b[i-1] == '"' || b[i-1] == '}' || b[i-1] == ']') {
			return i
		}
	}
}

// Objects makes hits of JSON objects by the templates of a replay, for readers of other sources than files. It belongs to one
// goroutine. A hit is Begin, Set and Add for its fields, and then End and AppendKey.
type Objects struct {
	*jsonParser
	bound []boundTemplate
	line  line
}

// NewObjects returns one for key templates. times and counts name the fields of the time and of the count; none: as in a log. more
// are fields that Field returns, too.
func NewObjects(templates, times, counts []string, more ...string) (*Objects, error) {
	parsed, err := parseTemplates(templates)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(JSON, parsed)
	if err != nil {
		return nil, err
	}
	p.fields = append(p.fields, more...)
	if len(times) == 0 {
		times = jsonTimeNames
	}
	if len(counts) == 0 {
		counts = jsonWeightNames
	}
	return &Objects{newObjectParser(p, times, counts), p.bound, p.newLine()}, nil
}

// Fields returns the names of all fields that matter.
func (o *Objects) Fields() []string { return slices.Concat(o.names, o.timeNames, o.weightNames) }

// Field returns a field of a template, or one of more; nil: the hit has none.
func (o *Objects) Field(name string) []byte { return o.line.fields[slices.Index(o.names, name)] }

// Begin begins a hit.
func (o *Objects) Begin() { o.begin(&o.line) }

// Set gives it a field, as text; nil: it has none.
func (o *Objects) Set(name string, value []byte) {
	at, _ := o.places([]byte(name))
	o.take(at, jsonValue{value, true}, o.line.fields)
}

// SetNumber is Set for a number.
func (o *Objects) SetNumber(name string, value []byte) {
	at, _ := o.places([]byte(name))
	o.take(at, jsonValue{text: value}, o.line.fields)
}

// Add gives it the fields of an object, with a prefix before their names.
func (o *Objects) Add(prefix string, object []byte) error {
	o.path = append(o.path[:0], prefix...)
	return o.object(object, &o.line)
}

// End returns the time in Unix seconds and the count; timed is false if the hit has no time.
func (o *Objects) End() (at int64, timed bool, n uint64, err error) {
	if err = o.end(&o.line); errors.Is(err, errNoTimeField) {
		n, err = o.weight()
		return 0, false, n, err
	}
	return o.line.at, true, o.line.n, err
}

// AppendKey appends the key of a template. It returns false if the hit lacks a field: then it has no key by this template.
func (o *Objects) AppendKey(key []byte, template int) ([]byte, bool) {
	return o.bound[template].appendKey(key, o.line.fields)
}
