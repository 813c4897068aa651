package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, test := range []struct {
		total int64
		want  []string // after each half second with 100 MiB in it
	}{
		{1000 << 20, []string{"", "reading: 200MiB of 1000MiB (20 %), 200MiB/s, 4s left", "reading: 300MiB of 1000MiB (30 %), 200MiB/s, 4s left"}},
		{0, []string{"", "reading: 200MiB, 200MiB/s", "reading: 300MiB, 200MiB/s"}},
	} {
		var out bytes.Buffer
		began := now
		p := &line{w: &out, total: test.total, now: func() time.Time { return now }, began: began}
		for i, want := range test.want {
			now = now.Add(500 * time.Millisecond)
			out.Reset()
			p.add(100 << 20)
			if got := strings.TrimPrefix(out.String(), "\r\x1b[K"); got != want {
				t.Errorf("total %d, step %d: %q, want %q", test.total, i, got, want)
			}
		}
	}
}

// What is over within a second draws nothing, and so wipes nothing.
func TestShortProgress(t *testing.T) {
	var out bytes.Buffer
	add, finish := NewProgress(&out, 100)
	add(50)
	finish()
	if out.Len() > 0 {
		t.Errorf("drawn: %q", out.String())
	}
}
