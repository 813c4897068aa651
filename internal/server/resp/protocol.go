package resp

import (
	"bytes"
	"io"
	"strconv"
)

// This part reads requests and writes replies of RESP, the protocol of Redis, in its
// versions 2 and 3. A request is an array of bulk strings, or a line of words (an inline
// command, as people type it). The standard library alone.
//
// Invariants. A Reader holds one buffer, and its requests are views of it: nothing is
// allocated for a request that fits the buffer. Whatever a client sends is bounded by Limits
// before memory is taken for it, and what a client announces takes no memory before it
// arrives. A request is read once, however many pieces it comes in. A Writer keeps replies
// until Flush, or until they are many.
//
// Neighbours: package resp has a Reader and a Writer for each connection.

// Reader reads the requests of one client. Create it with NewReader; it is for one
// goroutine.
type Reader struct {
	source  io.Reader
	limits  ProtocolLimits
	reserve func(bytes int) error

	// Invariant: 0 <= start <= end <= len(buf); buf[start:end] is what was received and not
	// read: the request under way, and those after it.
	buf        []byte
	start, end int

	// Of a request that is not whole:
	at    int    // where its next argument begins, or its line was searched up to
	want  int    // arguments that miss; 0: how many there are is not known
	spans []span // those that are there
	taken int    // bytes that are reserved for more of them than keptArgs

	args [][]byte
}

// span is where an argument is, from the start of its request.
type span struct{ from, to int }

const (
	// keptArgs is how many arguments a Reader keeps room for.
	keptArgs = 1024

	// argBytes is the memory of an argument beside its bytes.
	argBytes = 40
)

// NewReader returns one that reads from source. reserve is asked before the buffer takes more
// than Limits.Buffer, with the bytes, and told with a number below 0 when it gives them back; nil
// always grants them.
func NewReader(source io.Reader, limits ProtocolLimits, reserve func(bytes int) error) *Reader {
	if reserve == nil {
		reserve = func(int) error { return nil }
	}
	return &Reader{source: source, limits: limits, reserve: reserve, buf: make([]byte, limits.Buffer)}
}

// Next returns the arguments of the next request, of which the first is the command's name; nil if
// no whole request was received: then Fill receives more. They are views of the buffer, which the
// caller may change, and valid until the next call of Fill. Requests without arguments are left
// out. After an *Error there is no further request.
func (r *Reader) Next() ([][]byte, error) {
	for r.want == 0 {
		switch {
		case r.start == r.end:
			return nil, nil
		case r.buf[r.start] != '*':
			args, more, err := r.inline()
			if err != nil || more || len(args) > 0 {
				return args, err
			}
			continue
		}
		n, size := length(r.buf[r.start+1 : r.end])
		switch {
		case size == 0:
			return nil, nil
		case size < 0 || n > r.limits.Args:
			return nil, fault("invalid multibulk length")
		case n <= 0:
			r.begin(r.start + 1 + size)
			continue
		}
		r.want, r.at = n, r.start+1+size
	}
	for ; r.want > 0; r.want-- {
		if whole, err := r.argument(); !whole {
			return nil, err
		}
	}
	for _, s := range r.spans {
		r.args = append(r.args, r.buf[r.start+s.from:r.start+s.to:r.start+s.to])
	}
	args := r.args
	r.begin(r.at)
	return args, nil
}

// begin makes ready for a request that begins at a place of the buffer.
func (r *Reader) begin(at int) {
	r.start, r.at, r.want = at, at, 0
	if r.taken > 0 {
		r.spans, r.args = nil, nil
		r.giveBackArgs()
	}
	r.spans, r.args = r.spans[:0], r.args[:0]
}

// argument reads the bulk string at r.at, if it is whole.
func (r *Reader) argument() (whole bool, err error) {
	b := r.buf[r.at:r.end]
	if len(b) == 0 {
		return false, nil
	}
	if b[0] != '$' {
		return false, fault("expected '$', got '%s'", printable(b[0]))
	}
	n, size := length(b[1:])
	switch {
	case size == 0:
		return false, nil
	case size < 0 || n < 0 || n > r.limits.Bulk:
		return false, fault("invalid bulk length")
	}
	from := r.at + 1 + size
	to := from + n
	switch {
	case to+2-r.start > r.limits.Request:
		return false, r.tooLarge()
	case to+2 > r.end:
		return false, nil
	case r.buf[to] != '\r' || r.buf[to+1] != '\n':
		return false, fault("expected CRLF after a bulk string of %d bytes", n)
	}
	if err := r.reserveArg(); err != nil {
		return false, err
	}
	r.spans = append(r.spans, span{from - r.start, to - r.start})
	r.at = to + 2
	return true, nil
}

func (r *Reader) tooLarge() error {
	return fault("a request of more than %d bytes", r.limits.Request)
}

// printable is a byte as a message shows it.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return "?"
	}
	return string(rune(c))
}

// Partial tells whether a part of a request was received.
func (r *Reader) Partial() bool { return r.end > r.start }

// inline reads a line of words at the start of the buffer; more: it has not come as a whole. A
// line without words has no arguments. r.at is up to where the end of the line was looked for.
func (r *Reader) inline() (args [][]byte, more bool, err error) {
	end := bytes.IndexByte(r.buf[r.at:r.end], '\n')
	if end < 0 {
		r.at = r.end
		if r.end-r.start > r.limits.Inline {
			return nil, false, fault("too big inline request")
		}
		return nil, true, nil
	}
	end += r.at
	line := r.buf[r.start:end]
	if len(line) > r.limits.Inline {
		return nil, false, fault("too big inline request")
	}
	if bytes.ContainsAny(line, `"'`) {
		return nil, false, fault("a line has quotes: send an array of bulk strings, as redis-cli does")
	}
	for word := range bytes.FieldsFuncSeq(line, isSpace) {
		if len(args) == r.limits.Args {
			return nil, false, fault("too many arguments in request")
		}
		args = append(args, word)
	}
	r.begin(end + 1)
	return args, false, nil
}

func isSpace(c rune) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// ProtocolLimits bound what one client may send. All must be set.
type ProtocolLimits struct {
	Buffer  int // bytes of a Reader's buffer while requests are small
	Request int // bytes of one request, not below Buffer
	Args    int // arguments of one request, with the command's name
	Bulk    int // bytes of one argument
	Inline  int // bytes of an inline request; not more than Buffer
}

// maxDigits is the most characters of a length: more than any bound needs.
const maxDigits = 20

// length reads a decimal number that ends with CRLF. size is the bytes of both; 0: more must
// come, -1: it is no such number.
func length(b []byte) (n, size int) {
	i := 0
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		i = 1
	}
	first := i
	for ; i < len(b) && i < maxDigits; i++ {
		c := b[i]
		if c < '0' || c > '9' {
			break
		}
		n = min(n*10+int(c-'0'), 1<<40)
	}
	switch {
	case i == len(b):
		return 0, 0
	case i == first || b[i] != '\r':
		return 0, -1
	case i+1 == len(b):
		return 0, 0
	case b[i+1] != '\n':
		return 0, -1
	case negative:
		n = -n
	}
	return n, i + 2
}

// ParseInt reads a whole number as commands take it: an optional minus and digits, no zeros before
// others, within 64 bits.
func ParseInt(b []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(b, []byte("-"))
	if len(digits) == 0 || digits[0] < '1' && len(b) > 1 || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(ArgumentView(b), 10, 64)
	return n, err == nil
}

// ParseUint is ParseInt of numbers from 0 on.
func ParseUint(b []byte) (n uint64, ok bool) {
	if len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(ArgumentView(b), 10, 64)
	return n, err == nil
}
