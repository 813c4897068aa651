package resp

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestReplies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		write  func(*Writer)
		v2, v3 string
	}{
		{"status", func(w *Writer) { w.Status("OK") }, "+OK\r\n", "+OK\r\n"},
		{"error", func(w *Writer) { w.Error("ERR", "a\r\n+OK") }, "-ERR a  +OK\r\n", "-ERR a  +OK\r\n"},
		{"int", func(w *Writer) { w.Int(-12) }, ":-12\r\n", ":-12\r\n"},
		{"digit", func(w *Writer) { w.Int(7) }, ":7\r\n", ":7\r\n"},
		{"uint", func(w *Writer) { w.Uint(math.MaxUint64) }, ":9223372036854775807\r\n", ":9223372036854775807\r\n"},
		{"bulk", func(w *Writer) { w.Bulk("a\r\n") }, "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"},
		{"empty", func(w *Writer) { w.BulkBytes(nil) }, "$0\r\n\r\n", "$0\r\n\r\n"},
		{"null", (*Writer).Null, "$-1\r\n", "_\r\n"},
		{"null array", (*Writer).NullArray, "*-1\r\n", "_\r\n"},
		{"bool", func(w *Writer) { w.Bool(true); w.Bool(false) }, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
		{"double", func(w *Writer) { w.Double(0.25) }, "$4\r\n0.25\r\n", ",0.25\r\n"},
		{"array", func(w *Writer) { w.Array(2) }, "*2\r\n", "*2\r\n"},
		{"map", func(w *Writer) { w.Map(2) }, "*4\r\n", "%2\r\n"},
	} {
		for version, want := range map[int]string{2: tc.v2, 3: tc.v3} {
			var out bytes.Buffer
			w := NewWriter(&out)
			w.SetVersion(version)
			tc.write(w)
			if err := w.Flush(); err != nil || out.String() != want {
				t.Errorf("%s in version %d: %q, %v, want %q", tc.name, version, out.String(), err, want)
			}
		}
	}
}

func TestManyRepliesAreNotHeldBack(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	w.Bulk(strings.Repeat("x", flushBytes))
	if out.Len() == 0 {
		t.Error("kept for Flush")
	}
	out.Reset()
	w.Hold(true)
	w.Bulk(strings.Repeat("x", 5*flushBytes))
	if out.Len() > 0 {
		t.Error("sent while replies are held")
	}
	w.Hold(false)
	if out.Len() < 5*flushBytes {
		t.Error("not sent after Hold")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestAnErrorIsKept(t *testing.T) {
	w := NewWriter(broken{})
	for range 3 {
		w.Bulk(strings.Repeat("x", flushBytes))
	}
	if err := w.Flush(); err == nil || err.Error() != "broken" {
		t.Errorf("got %v", err)
	}
}
