package httpapi

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Records come out one by one; those that are too long are passed over.
func TestFeed(t *testing.T) {
	t.Parallel()
	text := "a 1\n\nb 2\r\n" + strings.Repeat("x", 50) + "\n" + strings.Repeat("y", 150) + "\nlast"
	got := records(t, bodyLines{&feed{buf: []byte(text)}, 64})
	want := []string{"a 1", "", "b 2\r", strings.Repeat("x", 50), "too long", "last"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("lines: got %q, want %q", got, want)
	}
	array := ` [ {"key":"a"}, {"key":"]}\"{["} ,"` + strings.Repeat("z", 150) + `", 1 ,[[1],[2]],{"a":{"b":[]}}] `
	got = records(t, &elements{feed: &feed{buf: []byte(array)}, maxBytes: 64})
	want = []string{`{"key":"a"}`, `{"key":"]}\"{["}`, "too long", "1", "[[1],[2]]", `{"a":{"b":[]}}`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("elements: got %q, want %q", got, want)
	}
}

func records(t *testing.T, from splitter) (all []string) {
	t.Helper()
	for {
		record, tooLong, err := from.next()
		switch {
		case errors.Is(err, io.EOF):
			return all
		case tooLong:
			all = append(all, "too long")
		case err != nil:
			t.Fatal(err)
		default:
			all = append(all, string(record))
		}
	}
}

// Keys that are written with escapes are of their own memory: records are read before the first
// of them is counted.
func TestKeysWithEscapes(t *testing.T) {
	t.Parallel()
	var p jsonParser
	first, _, _ := p.parse([]byte(`{"key":"a\u0041"}`))
	second, _, _ := p.parse([]byte(`{"key":"\u0042b"}`))
	if first.key != "aA" || second.key != "Bb" {
		t.Errorf("%q, %q", first.key, second.key)
	}
}
