package replay

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// cutAll feeds text to a cutter as a reader would, in pieces of random length.
func cutAll(r *rand.Rand, text []byte) (lines []string) {
	var c cutter
	buf := make([]byte, chunkBytes)
	for ended := false; !ended; {
		n := c.fill(buf)
		m := copy(buf[n:min(len(buf), n+1+r.IntN(2*chunkBytes))], text)
		text = text[m:]
		ended = len(text) == 0
		got := c.cut(buf[:n+m], ended)
		for len(got) > 0 {
			line, rest, _ := bytes.Cut(got, []byte("\n"))
			lines = append(lines, string(line))
			got = rest
		}
	}
	return lines
}

func TestCutter(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var want []string
		for range 30 {
			length := r.IntN(100)
			switch r.IntN(4) {
			case 0:
				length = r.IntN(chunkBytes * 3)
			case 1:
				length = chunkBytes - 2 + r.IntN(5)
			}
			want = append(want, strings.Repeat("x", length))
		}
		text := strings.Join(want, "\n")
		if want[len(want)-1] == "" { // text ends with a line end
			want = want[:len(want)-1]
		}
		got := cutAll(r, []byte(text))
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d lines, want %d", seed, len(got), len(want))
		}
		for i := range want {
			if long := len(want[i]) > MaxLineBytes; long != (len(got[i]) > MaxLineBytes) || !long && got[i] != want[i] {
				t.Fatalf("seed %d: line %d has %d bytes, want %d", seed, i, len(got[i]), len(want[i]))
			}
		}
	}
}
