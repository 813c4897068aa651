package replay

import (
	"fmt"
	"slices"
	"strings"
)

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
				return nil, fmt.Errorf("the keys of %s and %s cannot be told apart: begin each template with a word of its own, for example url:{path} and host:{host}", other.text, t.text)
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

// uses reports whether a template asks for a field at one of the places.
func uses(templates []boundTemplate, places ...int) bool {
	return slices.ContainsFunc(templates, func(t boundTemplate) bool {
		return slices.ContainsFunc(t, func(p boundPart) bool { return slices.Contains(places, p.place) })
	})
}
