package replay

import (
	"bytes"
	"encoding/json"
	"slices"
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
type jsonParser struct {
	names   []string // template fields; their places in line.fields
	clock   clfClock
	scratch []byte // unescaped strings of the current line

	times   [7]jsonValue // parallel to jsonTimeNames
	weights [2]jsonValue // parallel to jsonWeightNames
}

// A jsonValue is a scalar. text is nil if the field is missing, null, an object or a list.
type jsonValue struct {
	text   []byte
	quoted bool
}

func newJSONParser(p *plan) parser { return &jsonParser{names: p.fields} }

func (p *jsonParser) parse(b []byte, l *line) error {
	b = bytes.Trim(b, " \t\r\n") // the white space that JSON has
	if len(b) == 0 || b[0] != '{' || !json.Valid(b) {
		return errNotJSON
	}
	clear(l.fields)
	p.times, p.weights, p.scratch = [7]jsonValue{}, [2]jsonValue{}, p.scratch[:0]
	p.scan(b, l.fields)

	var err error
	if l.at, err = p.time(); err != nil {
		return err
	}
	l.n, err = p.weight()
	return err
}

// scan visits the top-level fields of b, a valid JSON object: that is why it has no error.
func (p *jsonParser) scan(b []byte, fields [][]byte) {
	i := skipSpace(b, 1)
	for b[i] == '"' {
		end := stringEnd(b, i)
		name := p.unescape(b[i:end])
		i = skipSpace(b, end)
		i = skipSpace(b, i+1) // the colon
		end = valueEnd(b, i)
		p.field(name, b[i:end], fields)
		i = skipSpace(b, end)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
}

func (p *jsonParser) field(name, raw []byte, fields [][]byte) {
	place := index(p.names, name)
	asTime, asWeight := index(jsonTimeNames, name), index(jsonWeightNames, name)
	if place < 0 && asTime < 0 && asWeight < 0 {
		return
	}
	v := p.value(raw)
	if place >= 0 {
		fields[place] = v.text
	}
	if asTime >= 0 {
		p.times[asTime] = v
	}
	if asWeight >= 0 {
		p.weights[asWeight] = v
	}
}

func (p *jsonParser) value(raw []byte) jsonValue {
	switch raw[0] {
	case '"':
		return jsonValue{text: p.unescape(raw), quoted: true}
	case '{', '[', 'n':
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
