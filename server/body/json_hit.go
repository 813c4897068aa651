package body

import (
	"fmt"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

var (
	rejectJSON      = reject(api.CodeInvalidJSON, "not valid JSON")
	rejectNotObject = reject(api.CodeInvalidJSON, `a hit is an object: {"key":"url:/home","n":1,"at":1769860800}`)
	rejectNoKey     = reject(api.CodeInvalidKey, `the hit has no "key"`)
	rejectKeyType   = reject(api.CodeInvalidKey, "key must be a string")
	rejectAtType    = reject(api.CodeInvalidTime, "at must be a number of Unix seconds or an RFC 3339 string")
)

// jsonParser reads hits written as JSON objects. It knows this one shape, so
// that a line costs no reflection and no allocation.
type jsonParser struct {
	scanner jsonScanner
	value   []byte // the letters of a string that was written with escapes; not of a key
}

// parse reads one object {"key","n","at"}; other fields, and fields given
// twice, are rejected rather than guessed at. n and at may be null, which
// stands for their defaults. blank is true for a record of white space.
func (p *jsonParser) parse(record []byte) (h hit, blank bool, rej *service.Rejection) {
	p.scanner = jsonScanner{data: record}
	if p.scanner.space(); p.scanner.i == len(record) {
		return h, true, nil
	}
	h, rej = p.object()
	return h, false, rej
}

func (p *jsonParser) object() (h hit, rej *service.Rejection) {
	s := &p.scanner
	if !s.token('{') {
		return h, rejectNotObject
	}
	h.n = 1
	var seen jsonField
	for first := true; !s.token('}'); first = false {
		if !first && !s.token(',') {
			return h, rejectJSON
		}
		name, ok := s.str(&p.value)
		if !ok || !s.token(':') {
			return h, rejectJSON
		}
		field := fieldNamed(name)
		if field == 0 {
			return h, reject(api.CodeUnknownField, fmt.Sprintf("field %s is not known: a hit has key, n and at", quoteField(name)))
		}
		if seen&field != 0 {
			return h, reject(api.CodeInvalidJSON, fmt.Sprintf("field %s is given twice", quoteField(name)))
		}
		seen |= field
		switch field {
		case fieldKey:
			rej = p.readKey(&h)
		case fieldN:
			rej = p.readN(&h)
		case fieldAt:
			rej = p.readAt(&h)
		}
		if rej != nil {
			return h, rej
		}
	}
	if s.space(); s.i < len(s.data) {
		return h, rejectJSON
	}
	if seen&fieldKey == 0 {
		return h, rejectNoKey
	}
	return h, nil
}

// jsonField is a set of the fields of a hit.
type jsonField uint8

const (
	fieldKey jsonField = 1 << iota
	fieldN
	fieldAt
)

// fieldNamed returns 0 for a name that is no field.
func fieldNamed(name []byte) jsonField {
	switch string(name) {
	case "key":
		return fieldKey
	case "n":
		return fieldN
	case "at":
		return fieldAt
	}
	return 0
}

func (p *jsonParser) readKey(h *hit) *service.Rejection {
	if p.scanner.peek() != '"' {
		return rejectKeyType
	}
	var letters []byte // of their own, if there are any: the key outlives the next record
	key, ok := p.scanner.str(&letters)
	if !ok {
		return rejectJSON
	}
	h.key = view(key)
	return service.CheckHitKey(h.key)
}

func (p *jsonParser) readN(h *hit) (rej *service.Rejection) {
	if p.scanner.null() {
		return nil
	}
	number, ok := p.scanner.number()
	if !ok {
		number = nil // no number at all
	}
	h.n, rej = service.ParseCount(view(number))
	return rej
}

func (p *jsonParser) readAt(h *hit) (rej *service.Rejection) {
	var at []byte
	var ok bool
	switch c := p.scanner.peek(); {
	case p.scanner.null():
		return nil
	case c == '"':
		if at, ok = p.scanner.str(&p.value); !ok {
			return rejectJSON
		}
	default:
		if at, ok = p.scanner.number(); !ok {
			return rejectAtType
		}
	}
	h.hasAt = true
	h.at, rej = service.ParseAt(view(at))
	return rej
}
