package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

func FuzzTextHit(f *testing.F) {
	for _, seed := range []string{"url:/home", "a 3", " a\t2  1769860800\r", "a 1 2026-01-31T12:00:00Z", "a 1 1.5", "a 0", "a 1 2 3", "\x7f",
		"é 1099511627776", "a 1099511627777", "a 18446744073709551616", "\xff", "", "a\rb 1", "a 1\r", "a 00001", "a\vb", "a +1", "[", "{ 3"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // not one line
		}
		h, blank, rej := parseTextHit(line)
		want, wantBlank, wantOK := naiveTextHit(string(line))
		if blank != wantBlank || (rej == nil) != (wantOK || wantBlank) {
			t.Fatalf("%q: blank %v, rejected %v, want blank %v, good %v", line, blank, rej, wantBlank, wantOK)
		}
		if wantOK {
			sameHit(t, line, h, want)
		}
	})
}

// naiveTextHit reads a line with the standard library alone.
func naiveTextHit(line string) (h hit, blank, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 {
		return h, true, false
	}
	h = hit{key: fields[0], n: 1}
	if len(fields) > 3 || h.key[0] == '{' || h.key[0] == '[' || !utf8.ValidString(h.key) || len(h.key) > engine.MaxKeyBytes ||
		strings.ContainsFunc(h.key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return h, false, false
	}
	if len(fields) > 1 {
		n, isNumber := new(big.Int).SetString(fields[1], 10)
		if !isNumber || !n.IsUint64() || n.Sign() == 0 || n.Uint64() > engine.MaxHits || strings.ContainsAny(fields[1], "+-_") {
			return h, false, false
		}
		h.n = n.Uint64()
	}
	if len(fields) > 2 {
		var err error
		if h.at, err = units.ParseTime(fields[2]); err != nil {
			return h, false, false
		}
		h.hasAt = true
	}
	return h, false, true
}

func FuzzJSONHit(f *testing.F) {
	for _, seed := range []string{`{"key":"url:/home"}`, `{"key":"a","n":3,"at":1769860800.25}`, ` { "at" : "2026-01-31T12:00:00Z" , "key" : "a" } `,
		`{"key":"\u00e9\ud83d\ude00\n","n":null,"at":null}`, `{"key":"\ud800"}`, `{"key":"a","n":1e3}`, `{"key":"a","x":1}`, `{"key":"a","key":"b"}`,
		`{"k\u0065y":"a"}`, `{"key":"a",}`, `{"key":"a"}}`, `{"key":"a" "n":1}`, `{"key":"a","n":01}`, `[]`, `{`, `{"key":"` + "\xff" + `"}`, `{"key":"a","at":1.7e9}`,
		`{"key":"a","n":-0}`, `{"key":"\udc00\ud800"}`, `{"key":"a","at":-1}`, `{"key":null}`} {
		f.Add([]byte(seed))
	}
	var p jsonParser
	f.Fuzz(func(t *testing.T, record []byte) {
		before := bytes.Clone(record)
		h, blank, rej := p.parse(record)
		if blank != (len(bytes.Trim(record, " \t\r\n")) == 0) {
			t.Fatalf("%q: blank %v", record, blank)
		}
		want, err := naiveJSONHit(record)
		if (rej == nil && !blank) != (err == nil) {
			t.Fatalf("%q: rejected %v, want %v", record, rej, err)
		}
		if err == nil {
			sameHit(t, record, h, want)
		}
		if !bytes.Equal(before, record) {
			t.Fatalf("%q was changed to %q", before, record)
		}
	})
}

// naiveJSONHit reads an object with encoding/json, token by token.
func naiveJSONHit(record []byte) (hit, error) {
	h := hit{n: 1}
	if !json.Valid(record) {
		return h, errors.New("invalid")
	}
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return h, errors.New("not an object")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return h, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return h, err
		}
		if seen[name.(string)] {
			return h, errors.New("twice")
		}
		seen[name.(string)] = true
		if err := naiveField(&h, name.(string), raw); err != nil {
			return h, err
		}
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	if !seen["key"] || h.key == "" || len(h.key) > engine.MaxKeyBytes || !utf8.Valid(record) || loneSurrogate(record) {
		return h, errors.New("key")
	}
	return h, nil
}

func naiveField(h *hit, name string, raw json.RawMessage) (err error) {
	text := string(raw)
	switch {
	case name == "key":
		if text[0] != '"' {
			return errors.New("key is not a string")
		}
		return json.Unmarshal(raw, &h.key)
	case name == "n" && text == "null", name == "at" && text == "null":
		return nil
	case name == "n":
		if h.n, err = strconv.ParseUint(text, 10, 64); err == nil && (h.n == 0 || h.n > engine.MaxHits) {
			err = errors.New("none or too many")
		}
		return err
	case name == "at":
		if text[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
		}
		h.hasAt = true
		h.at, err = units.ParseTime(text)
		return err
	default:
		return errors.New("unknown field")
	}
}

// loneSurrogate tells whether a \u escape names half a pair; encoding/json
// hides that behind U+FFFD.
func loneSurrogate(record []byte) bool {
	high := false // the escape just before was a first half
	for i := 0; i < len(record); i++ {
		unit := uint64(0)
		if record[i] == '\\' {
			i++
			if record[i] == 'u' {
				unit, _ = strconv.ParseUint(string(record[i+1:i+5]), 16, 32)
				i += 4
			}
		}
		low := unit >= 0xdc00 && unit < 0xe000
		if high != low {
			return true
		}
		high = unit >= 0xd800 && unit < 0xdc00
	}
	return high
}

func sameHit(t *testing.T, record []byte, got, want hit) {
	t.Helper()
	if got.key != want.key || got.n != want.n || got.hasAt != want.hasAt || !got.at.Equal(want.at) {
		t.Fatalf("%q: got %+v, want %+v", record, got, want)
	}
}

// FuzzElements checks the splitter against encoding/json on whole arrays.
func FuzzElements(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,"a,]",{"a":[]}]`, ` [ {"k":"\\\""} , [[]] ] `, `{"key":"a"}`, `[1,]`, `[`, `[1 2]`, `[]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var want []json.RawMessage
		if json.Unmarshal(document, &want) != nil || want == nil {
			return // only what is an array
		}
		got := records(t, &elements{feed: &feed{buf: document}, maxBytes: len(document) + 1})
		if len(got) != len(want) {
			t.Fatalf("%q: got %q, want %q", document, got, want)
		}
		for i := range want {
			if got[i] != string(want[i]) {
				t.Fatalf("%q: element %d is %q, want %q", document, i, got[i], want[i])
			}
		}
	})
}
