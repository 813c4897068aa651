package calendar

import (
	"strings"
	"testing"
)

// No key of a file is a formula to a spreadsheet, and each can be had back.
func TestCSVFormulas(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"=1+1", "+1", "-1", "@x", "\tx", "\rx", "\x1b[2J", "'x", "a=1", "plain"} {
		var b strings.Builder
		w, err := NewExport("csv", &b)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(ExportRow{Key: key}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(b.String(), "\n")
		line = strings.TrimPrefix(line, `"`)
		if marked := strings.HasPrefix(line, "'"); marked != strings.ContainsAny(key[:1], "=+-@\t\r\x1b'") {
			t.Errorf("%q: %q", key, line)
		}
	}
}
