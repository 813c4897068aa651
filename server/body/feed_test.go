package body

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Records come out the same however the network cuts them.
func TestFeedCuts(t *testing.T) {
	text := "a 1\n\nb 2\r\n" + strings.Repeat("x", 50) + "\n" + strings.Repeat("y", 150) + "\nlast"
	array := ` [ {"key":"a"}, {"key":"]}\"{["} ,"` + strings.Repeat("z", 150) + `", 1 ,[[1],[2]],{"a":{"b":[]}}] `
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "eof": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			f := &feed{buf: make([]byte, 128)}
			f.reset(wrap(strings.NewReader(text)))
			got := records(t, lines{f, 64})
			want := []string{"a 1", "", "b 2\r", strings.Repeat("x", 50), "too long", "last"}
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("lines: got %q, want %q", got, want)
			}
			f.reset(wrap(strings.NewReader(array)))
			e := &elements{feed: f, maxBytes: 64}
			got = records(t, e)
			want = []string{`{"key":"a"}`, `{"key":"]}\"{["}`, "too long", "1", "[[1],[2]]", `{"a":{"b":[]}}`}
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("elements: got %q, want %q", got, want)
			}
		})
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

func TestFeedWithoutProgress(t *testing.T) {
	f := &feed{buf: make([]byte, 128)}
	f.reset(emptyReader{})
	if _, _, err := (lines{f, 64}).next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

// emptyReader reads nothing, forever.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }
