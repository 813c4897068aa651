package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var testLimits = ProtocolLimits{Buffer: 64, Request: 1 << 10, Args: 20, Bulk: 256, Inline: 60}

// readAll reads requests until the source ends, as text, and how it ended.
func readAll(r *Reader) (requests []string, end error) {
	for {
		args, err := r.Next()
		switch {
		case err != nil:
			return requests, err
		case args != nil:
			requests = append(requests, fmt.Sprintf("%q", args))
			continue
		}
		if err := r.Fill(); err != nil {
			return requests, err
		}
	}
}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		name, sent string
		want       []string
		fault      string // of the protocol; "": none
	}{
		{name: "array", sent: "*2\r\n$3\r\nHIT\r\n$1\r\na\r\n", want: []string{`["HIT" "a"]`}},
		{name: "pipeline", sent: "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", want: []string{`["PING"]`, `["PING"]`}},
		{name: "bytes of any kind", sent: "*2\r\n$1\r\n\x00\r\n$4\r\n\r\n$1\r\n", want: []string{`["\x00" "\r\n$1"]`}},
		{name: "empty argument", sent: "*2\r\n$0\r\n\r\n$1\r\na\r\n", want: []string{`["" "a"]`}},
		{name: "no arguments", sent: "*0\r\n*-1\r\nPING\r\n", want: []string{`["PING"]`}},
		{name: "line", sent: "HIT a 5\r\n", want: []string{`["HIT" "a" "5"]`}},
		{name: "line that ends as in Unix", sent: "PING\n\r\n\nPING x\n", want: []string{`["PING"]`, `["PING" "x"]`}},
		{name: "more than the buffer", sent: "*2\r\n$1\r\na\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\nPING\r\n",
			want: []string{`["a" "` + strings.Repeat("x", 200) + `"]`, `["PING"]`}},

		{name: "quotes", sent: "PING\nECHO \"a b\"\n", want: []string{`["PING"]`}, fault: "a line has quotes: send an array of bulk strings, as redis-cli does"},
		{name: "long line", sent: strings.Repeat("a", 61) + "\n", fault: "too big inline request"},
		{name: "endless line", sent: strings.Repeat("a", 500), fault: "too big inline request"},
		{name: "many arguments", sent: "*21\r\n", fault: "invalid multibulk length"},
		{name: "no number", sent: "*x\r\n", fault: "invalid multibulk length"},
		{name: "endless number", sent: "*" + strings.Repeat("1", 30), fault: "invalid multibulk length"},
		{name: "nested", sent: "*1\r\n*1\r\n$1\r\na\r\n", fault: "expected '$', got '*'"},
		{name: "integer", sent: "*1\r\n:1\r\n", fault: "expected '$', got ':'"},
		{name: "null argument", sent: "*1\r\n$-1\r\n", fault: "invalid bulk length"},
		{name: "large argument", sent: "*1\r\n$257\r\n", fault: "invalid bulk length"},
		{name: "argument of another length", sent: "*1\r\n$1\r\nab\r\n", fault: "expected CRLF after a bulk string of 1 bytes"},
		{name: "large request", sent: "*9\r\n" + strings.Repeat("$200\r\n"+strings.Repeat("x", 200)+"\r\n", 9), fault: "a request of more than 1024 bytes"},
		{name: "good before bad", sent: "PING\r\n*x\r\n", want: []string{`["PING"]`}, fault: "invalid multibulk length"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for kind, source := range map[string]io.Reader{
				"whole": strings.NewReader(tc.sent), "in bytes": iotest.OneByteReader(strings.NewReader(tc.sent)),
				"in halves": iotest.HalfReader(strings.NewReader(tc.sent)), "with the end": iotest.DataErrReader(strings.NewReader(tc.sent)),
			} {
				got, end := readAll(NewReader(source, testLimits, nil))
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("%s: got %v, want %v", kind, got, tc.want)
				}
				var f *ProtocolError
				switch {
				case tc.fault == "" && !errors.Is(end, io.EOF):
					t.Errorf("%s: ended with %v", kind, end)
				case tc.fault != "" && (!errors.As(end, &f) || f.Message != tc.fault):
					t.Errorf("%s: ended with %v, want %s", kind, end, tc.fault)
				}
			}
		})
	}
}

func TestARequestThatIsCutOff(t *testing.T) {
	if _, end := readAll(NewReader(strings.NewReader("*2\r\n$3\r\nHIT\r\n$1"), testLimits, nil)); !errors.Is(end, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", end)
	}
}

// What a client announces takes no memory; what it sends is reserved before, and given back.
func TestMemoryIsReserved(t *testing.T) {
	reserved, most := 0, 0
	reserve := func(n int) error {
		if reserved+n > 500 {
			return errors.New("full")
		}
		reserved += n
		most = max(most, reserved)
		return nil
	}
	whole := "*1\r\n$250\r\n" + strings.Repeat("x", 250) + "\r\n"
	r := NewReader(iotest.OneByteReader(strings.NewReader(whole+"PING\r\n")), testLimits, reserve)
	if got, end := readAll(r); len(got) != 2 || !errors.Is(end, io.EOF) {
		t.Fatalf("got %v, %v", got, end)
	}
	if reserved != 0 || most < 250-64 {
		t.Errorf("reserved %d, %d at most", reserved, most)
	}
	r = NewReader(strings.NewReader("*4\r\n"+strings.Repeat(whole[4:], 4)), testLimits, reserve)
	if _, end := readAll(r); end == nil || end.Error() != "full" {
		t.Errorf("ended with %v", end)
	}
	r.Release()
	if reserved != 0 {
		t.Errorf("%d bytes are still reserved", reserved)
	}
}

// Arguments take memory beside their bytes, which is reserved too where they are many.
func TestMemoryOfManyArgumentsIsReserved(t *testing.T) {
	const n = 10_000
	limits := ProtocolLimits{Buffer: 4 << 10, Request: 1 << 20, Args: n, Bulk: 100, Inline: 100}
	reserved, most := 0, 0
	source := strings.NewReader(fmt.Sprintf("*%d\r\n", n) + strings.Repeat("$1\r\na\r\n", n) + "PING\r\n")
	r := NewReader(source, limits, func(bytes int) error {
		reserved += bytes
		most = max(most, reserved)
		return nil
	})
	for _, want := range []int{n, 1} {
		for {
			args, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if args != nil {
				if len(args) != want || string(args[0]) != "a" && want == n {
					t.Fatalf("%d arguments", len(args))
				}
				break
			}
			if err := r.Fill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if least := n*7 - limits.Buffer + (n-2*keptArgs)*argBytes; most < least {
		t.Errorf("%d bytes were reserved, of at least %d", most, least)
	}
	r.Release()
	if reserved != 0 {
		t.Errorf("%d bytes are still reserved", reserved)
	}
}

func TestProtocolNothingIsAllocated(t *testing.T) {
	const pipeline = 16
	sent := bytes.Repeat([]byte("*3\r\n$3\r\nHIT\r\n$10\r\nuser:12345\r\n$1\r\n1\r\n"), pipeline)
	source := bytes.NewReader(nil)
	r := NewReader(source, ProtocolLimits{Buffer: 4 << 10, Request: 1 << 20, Args: 100, Bulk: 1 << 10, Inline: 1 << 10}, nil)
	w := NewWriter(io.Discard)
	if n := testing.AllocsPerRun(100, func() {
		source.Reset(sent)
		for got := 0; got < pipeline; {
			args, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if args == nil {
				if err := r.Fill(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			w.Int(int64(len(args)))
			got++
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequests(b *testing.B) {
	const pipeline = 64
	sent := bytes.Repeat([]byte("*2\r\n$3\r\nHIT\r\n$10\r\nuser:12345\r\n"), pipeline)
	source := bytes.NewReader(nil)
	r := NewReader(source, ProtocolLimits{Buffer: 8 << 10, Request: 1 << 20, Args: 100, Bulk: 1 << 10, Inline: 1 << 10}, nil)
	b.ReportAllocs()
	for b.Loop() {
		source.Reset(sent)
		if err := r.Fill(); err != nil {
			b.Fatal(err)
		}
		for range pipeline {
			if args, err := r.Next(); len(args) != 2 {
				b.Fatal(args, err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/request")
}
