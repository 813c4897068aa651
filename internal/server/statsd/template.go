package statsd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// maxTags bounds the tags of a key with {tags}.
const maxTags = 64

// template makes keys of lines.
type template []part

// part is text, or what is taken of a line.
type part struct {
	kind partKind
	text string // literal, or the name of a tag
}

type partKind int

const (
	literal partKind = iota
	name
	oneTag
	allTags
)

// parseTemplate reads a template such as {name}:{tag:route}.
func parseTemplate(text string) (template, error) {
	var t template
	named := false
	for rest := text; rest != ""; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			begin = len(rest)
		}
		if begin > 0 {
			t = append(t, part{literal, rest[:begin]})
			rest = rest[begin:]
			continue
		}
		variable, after, closed := strings.Cut(rest[1:], "}")
		tag, isTag := strings.CutPrefix(variable, "tag:")
		switch {
		case !closed:
			return nil, fmt.Errorf("%q: a { is not closed by }", text)
		case variable == "name":
			t, named = append(t, part{kind: name}), true
		case variable == "tags":
			t = append(t, part{kind: allTags})
		case isTag && tag != "":
			t = append(t, part{oneTag, tag})
		default:
			return nil, fmt.Errorf("%q: {%s} is unknown: there are {name}, {tag:NAME} and {tags}", text, variable)
		}
		rest = after
	}
	if !named {
		return nil, fmt.Errorf("%q has no {name}: write for example {name}:{tag:route}", text)
	}
	return t, nil
}

// appendKey appends the key of a line to dst, up to a bit more than limit bytes.
func (t template) appendKey(dst []byte, of *line, limit int) ([]byte, reason) {
	for _, p := range t {
		switch p.kind {
		case literal:
			dst = append(dst, p.text...)
		case name:
			dst = append(dst, of.name...)
		case oneTag:
			dst = append(dst, tagOf(of.tags, p.text)...)
		case allTags:
			var why reason
			if dst, why = appendTags(dst, of.tags); why != counted {
				return dst, why
			}
		}
		if len(dst) > limit {
			return dst, invalidKey
		}
	}
	return dst, counted
}

var noTag = []byte{'-'}

// tagOf is the value of a tag, or - if there is none.
func tagOf(tags []byte, name string) []byte {
	for len(tags) > 0 {
		var tag []byte
		tag, tags, _ = bytes.Cut(tags, []byte{','})
		if of, value, _ := bytes.Cut(tag, []byte{':'}); string(of) == name && len(value) > 0 {
			return value
		}
	}
	return noTag
}

// appendTags appends all tags in order, so that a set of tags has one key.
func appendTags(dst, tags []byte) ([]byte, reason) {
	var list [maxTags][]byte
	n := 0
	for len(tags) > 0 {
		var tag []byte
		if tag, tags, _ = bytes.Cut(tags, []byte{','}); len(tag) == 0 {
			continue
		}
		if n == maxTags {
			return dst, manyTags
		}
		list[n] = tag
		n++
	}
	if n == 0 {
		return append(dst, noTag...), counted
	}
	slices.SortFunc(list[:n], bytes.Compare)
	for i, tag := range list[:n] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, tag...)
	}
	return dst, counted
}
