package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Format names how the lines of a log are written.
type Format string

// The formats. Auto looks at the first lines of the log.
const (
	Auto Format = "auto"
	CLF  Format = "clf"  // Apache and nginx, common or combined
	JSON Format = "json" // one object per line
	TSV  Format = "tsv"  // epoch count [key]
)

// Formats lists all formats, in the order in which they are offered.
var Formats = []Format{Auto, CLF, JSON, TSV}

// formatList says what the formats are, for messages.
const formatList = "clf (Apache and nginx, common or combined), json (one object per line, with its time in at, time, timestamp, ts or @timestamp), tsv (epoch count [key], with tabs or spaces between them)"

// detectLines is how many lines at the start of a log tell its format.
const detectLines = 100

// detect tells the format that most of the first lines of text are written
// in. Text that fits none is read as CLF: its lines are shown as malformed, and
// useless says that no format fits.
func detect(text []byte) Format {
	best, most := CLF, 0
	for _, f := range []Format{CLF, JSON, TSV} {
		plan, _ := newPlan(f, nil)
		p, l := plan.newParser(), plan.newLine()
		good, rest := 0, text
		for i := 0; i < detectLines && len(rest) > 0; i++ {
			var b []byte
			b, rest, _ = bytes.Cut(rest, []byte("\n"))
			if len(b) <= MaxLineBytes && p.parse(trimEnd(b), &l) == nil {
				good++
			}
		}
		if good > most {
			best, most = f, good
		}
	}
	return best
}

// trimEnd takes the carriage return of a CRLF line away.
func trimEnd(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\r")) }

// A plan is how one replay reads its lines: the format and the templates that
// go with it. It does not change, so all workers share it.
type plan struct {
	format     Format
	templates  []template
	bound      []boundTemplate // parallel to templates
	fieldCount int
	jsonNames  []string // JSON only: the fields that templates name
}

// newPlan binds templates to the fields of a format. Without templates it
// takes those that fit the format.
func newPlan(format Format, templates []template) (*plan, error) {
	p := &plan{format: format, templates: templates}
	if len(templates) == 0 {
		p.templates = defaultTemplates(format)
	}
	place := func(name string) int {
		switch format {
		case JSON:
			return p.jsonPlace(name)
		case TSV:
			return slices.Index(tsvFieldNames[:], name)
		default:
			return slices.Index(clfFieldNames[:], name)
		}
	}
	for _, t := range p.templates {
		bound, unknown := t.bind(place)
		if unknown != "" {
			return nil, fmt.Errorf("key template %s: a %s log has no field {%s}; it has %s", t.text, format, unknown, fieldList(format))
		}
		p.bound = append(p.bound, bound)
	}
	switch format {
	case JSON:
		p.fieldCount = len(p.jsonNames)
	case TSV:
		p.fieldCount = tsvFieldCount
	default:
		p.fieldCount = clfFieldCount
	}
	return p, nil
}

// jsonPlace gives every field name a place: any of them may be in the lines.
func (p *plan) jsonPlace(name string) int {
	if i := slices.Index(p.jsonNames, name); i >= 0 {
		return i
	}
	p.jsonNames = append(p.jsonNames, name)
	return len(p.jsonNames) - 1
}

func defaultTemplates(format Format) []template {
	texts := []string{"{key}"}
	if format == CLF {
		texts = []string{"url:{path}", "host:{host}"}
	}
	templates, err := parseTemplates(texts)
	if err != nil {
		panic(err) // fixed texts
	}
	return templates
}

func fieldList(format Format) string {
	names := clfFieldNames[:]
	if format == TSV {
		names = tsvFieldNames[:]
	}
	return "{" + strings.Join(names, "} {") + "}"
}

func (p *plan) newParser() parser {
	switch p.format {
	case JSON:
		return newJSONParser(p.jsonNames)
	case TSV:
		return tsvParser{}
	default:
		return newCLFParser(func(field int) bool { return uses(p.bound, field) })
	}
}

func (p *plan) newLine() line { return line{fields: make([][]byte, p.fieldCount)} }
