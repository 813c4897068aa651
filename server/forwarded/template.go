package forwarded

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

const (
	maxParts   = 4   // variables of a template
	maxLiteral = 100 // bytes of a template's text beside them
	maxValue   = 100 // bytes that a variable makes; a longer value is cut
)

// Template makes keys. The zero Template makes none.
type Template struct {
	parts   []part
	literal int // bytes
}

// part is text, or what is read of a request.
type part struct {
	literal string
	read    func(*Request) (string, error) // nil: literal
}

// known is what error messages say of variables.
const known = "(client), (host), (method), (path), (path:2) for its first two parts, (header:X-Name) or (hash:X-Name)"

// Parse reads a template such as ip:(client). {client} is the same. It fails with a *service.Error.
func Parse(text string) (Template, error) {
	var t Template
	for rest := text; rest != ""; {
		begin := strings.IndexAny(rest, "({")
		if begin < 0 {
			begin = len(rest)
		}
		if begin > 0 {
			t.parts = append(t.parts, part{literal: rest[:begin]})
			t.literal += begin
			rest = rest[begin:]
			continue
		}
		closing := map[byte]string{'(': ")", '{': "}"}[rest[0]]
		name, after, closed := strings.Cut(rest[1:], closing)
		if !closed {
			return t, wrong(text, "a %c is not closed by %s", rest[0], closing)
		}
		read, err := variable(name)
		if err != "" {
			return t, wrong(text, "%s", err)
		}
		t.parts = append(t.parts, part{read: read})
		rest = after
	}
	switch variables := t.variables(); {
	case len(t.parts) == 0:
		return t, wrong(text, "it is empty")
	case variables > maxParts:
		return t, wrong(text, "it has %d variables: at most %d", variables, maxParts)
	case t.literal > maxLiteral:
		return t, wrong(text, "it has %d bytes of text beside its variables: at most %d", t.literal, maxLiteral)
	}
	return t, nil
}

func (t Template) variables() (n int) {
	for _, p := range t.parts {
		if p.read != nil {
			n++
		}
	}
	return n
}

func wrong(text, why string, args ...any) error {
	return &service.Error{Code: api.CodeInvalidKey, Field: "key", Message: "key " + service.Clip(text) + ": " + fmt.Sprintf(why, args...) + "; write for example ip:(client)"}
}

// Key makes the key of a request. It fails with a *service.Error if the proxy does not send what the
// template needs.
func (t Template) Key(of *Request) (string, error) {
	var key strings.Builder
	key.Grow(t.literal + 48)
	for _, p := range t.parts {
		value := p.literal
		if p.read != nil {
			var err error
			if value, err = p.read(of); err != nil {
				return "", err
			}
		}
		key.WriteString(value)
	}
	return key.String(), nil
}
