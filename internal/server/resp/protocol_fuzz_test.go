package resp

import (
	"bytes"
	"fmt"
	"testing"
)

// pieces gives a text in pieces of sizes that a text of numbers says, over and over.
type pieces struct {
	text  []byte
	sizes []byte
	at    int
}

func (p *pieces) Read(b []byte) (int, error) {
	size := 1
	if len(p.sizes) > 0 {
		size = 1 + int(p.sizes[p.at%len(p.sizes)])
		p.at++
	}
	return bytes.NewReader(p.text).Read(b[:min(size, len(b))])
}

// advancing is pieces that goes on.
type advancing struct{ *pieces }

func (a advancing) Read(b []byte) (int, error) {
	n, err := a.pieces.Read(b)
	a.text = a.text[n:]
	return n, err
}

// However a text comes in, the requests are the same, and within their limits.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$3\r\nHIT\r\n$1\r\na\r\nPING\r\n", "ECHO \"a\\x41\" 'b'\n", "*0\r\n*1\r\n$0\r\n\r\n", "*1\r\n$-1\r\n", "*1\r\n$3\r\nab\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(seed), []byte{0, 3, 200})
	}
	f.Fuzz(func(t *testing.T, text, sizes []byte) {
		reserved := 0
		reserve := func(n int) error {
			reserved += n
			if reserved < 0 || reserved > testLimits.Request-testLimits.Buffer {
				t.Fatalf("%d bytes are reserved", reserved)
			}
			return nil
		}
		read := func(sizes []byte) ([]string, string) {
			r := NewReader(advancing{&pieces{text: bytes.Clone(text), sizes: sizes}}, testLimits, reserve)
			requests, end := readAll(r)
			r.Release()
			if reserved != 0 {
				t.Fatalf("%d bytes are still reserved", reserved)
			}
			return requests, fmt.Sprint(end)
		}
		whole, wholeEnd := read([]byte{255})
		cut, cutEnd := read(sizes)
		if fmt.Sprint(whole) != fmt.Sprint(cut) || wholeEnd != cutEnd {
			t.Fatalf("%q\nwhole: %v %s\ncut:   %v %s", text, whole, wholeEnd, cut, cutEnd)
		}
	})
}

// What is written as an array of bulk strings is read as the same.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("HIT"), []byte("a"), []byte{1})
	f.Fuzz(func(t *testing.T, a, b, sizes []byte) {
		if len(a) > testLimits.Bulk || len(b) > testLimits.Bulk {
			return
		}
		var sent bytes.Buffer
		w := NewWriter(&sent)
		w.Array(2)
		w.BulkBytes(a)
		w.BulkBytes(b)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got, _ := readAll(NewReader(advancing{&pieces{text: sent.Bytes(), sizes: sizes}}, testLimits, nil))
		if want := fmt.Sprintf("%q", [][]byte{a, b}); len(got) != 1 || got[0] != want {
			t.Fatalf("got %v, want %s", got, want)
		}
	})
}

func FuzzInt(f *testing.F) {
	f.Add("-9223372036854775808")
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := ParseInt([]byte(text))
		var want int64
		read, err := fmt.Sscanf(text, "%d", &want)
		exact := err == nil && read == 1 && fmt.Sprint(want) == text
		if ok != exact || ok && n != want {
			t.Fatalf("%q: %d %v, want %d %v", text, n, ok, want, exact)
		}
	})
}
