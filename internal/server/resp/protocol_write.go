package resp

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// flushBytes is how many bytes of replies a Writer gathers before it writes them by itself.
const flushBytes = 16 << 10

// keptBytes is the largest buffer that a Writer keeps.
const keptBytes = 2 * flushBytes

// Writer writes replies to one client. Create it with NewWriter; it is for one goroutine. After an error of the
// connection it writes nothing more, and Flush returns the error.
type Writer struct {
	out  io.Writer
	buf  []byte
	v3   bool
	hold bool
	err  error
}

// NewWriter returns one that writes to out, in version 2.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// SetVersion changes to version 2 or 3 from the next reply on.
func (w *Writer) SetVersion(version int) { w.v3 = version == 3 }

// V3 reports whether replies are in version 3.
func (w *Writer) V3() bool { return w.v3 }

// Hold(true) keeps all replies until Hold(false), however many: for replies that are written while others wait for the
// caller. The caller bounds them.
func (w *Writer) Hold(on bool) {
	w.hold = on
	w.written()
}

// Flush sends what was written, and returns the first error there was.
func (w *Writer) Flush() error {
	if len(w.buf) > 0 && w.err == nil {
		_, w.err = w.out.Write(w.buf)
	}
	w.buf = w.buf[:0]
	if cap(w.buf) > keptBytes {
		w.buf = nil
	}
	return w.err
}

// written is called after each piece of a reply.
func (w *Writer) written() {
	if len(w.buf) >= flushBytes && !w.hold {
		_ = w.Flush() // the caller's Flush returns it
	}
}

// Status writes a short text without line ends, such as OK.
func (w *Writer) Status(text string) {
	w.buf = append(append(append(w.buf, '+'), text...), '\r', '\n')
	w.written()
}

// Error writes an error: its kind, one word in capitals by which clients tell errors apart, and
// what is wrong. Line ends in the text become spaces.
func (w *Writer) Error(kind, text string) {
	w.buf = append(append(append(w.buf, '-'), kind...), ' ')
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.buf = append(w.buf, c)
	}
	w.buf = append(w.buf, '\r', '\n')
	w.written()
}

// Int writes a whole number.
func (w *Writer) Int(n int64) { w.header(':', n) }

// Uint writes a whole number; what does not fit 64 bits with a sign is the largest that does.
func (w *Writer) Uint(n uint64) { w.header(':', int64(min(n, math.MaxInt64))) }

func (w *Writer) header(kind byte, n int64) {
	if n >= 0 && n < 10 {
		w.buf = append(w.buf, kind, byte('0'+n), '\r', '\n')
	} else {
		w.buf = append(strconv.AppendInt(append(w.buf, kind), n, 10), '\r', '\n')
	}
	w.written()
}

// Bulk writes a text of any bytes.
func (w *Writer) Bulk(text string) {
	w.buf = append(strconv.AppendInt(append(w.buf, '$'), int64(len(text)), 10), '\r', '\n')
	w.buf = append(append(w.buf, text...), '\r', '\n')
	w.written()
}

// BulkBytes is Bulk.
func (w *Writer) BulkBytes(text []byte) { w.Bulk(ArgumentView(text)) }

// Raw writes whole replies, as another Writer wrote them.
func (w *Writer) Raw(replies []byte) {
	w.buf = append(w.buf, replies...)
	w.written()
}

// Null writes the null value.
func (w *Writer) Null() { w.either("_\r\n", "$-1\r\n") }

// NullArray is Null in the place of an array.
func (w *Writer) NullArray() { w.either("_\r\n", "*-1\r\n") }

// Bool writes true or false; 1 or 0 in version 2.
func (w *Writer) Bool(b bool) {
	if b {
		w.either("#t\r\n", ":1\r\n")
	} else {
		w.either("#f\r\n", ":0\r\n")
	}
}

// either writes a reply that the versions write differently.
func (w *Writer) either(v3, v2 string) {
	if w.v3 {
		v2 = v3
	}
	w.buf = append(w.buf, v2...)
	w.written()
}

// OptionalUint writes a whole number; null for nil.
func (w *Writer) OptionalUint(n *uint64) {
	if n == nil {
		w.Null()
	} else {
		w.Uint(*n)
	}
}

// OptionalBulk writes a text; null for an empty one.
func (w *Writer) OptionalBulk(text string) {
	if text == "" {
		w.Null()
	} else {
		w.Bulk(text)
	}
}

// Ints writes an array of whole numbers.
func (w *Writer) Ints(list ...int64) {
	w.Array(len(list))
	for _, n := range list {
		w.Int(n)
	}
}

// Double writes a number that need not be whole; a text in version 2.
func (w *Writer) Double(f float64) {
	var digits [32]byte
	text := strconv.AppendFloat(digits[:0], f, 'g', -1, 64)
	if !w.v3 {
		w.BulkBytes(text)
		return
	}
	w.buf = append(append(append(w.buf, ','), text...), '\r', '\n')
	w.written()
}

// Values writes replies one after the other: texts, whole numbers, and arrays of texts.
func (w *Writer) Values(list ...any) {
	for _, one := range list {
		switch one := one.(type) {
		case string:
			w.Bulk(one)
		case int:
			w.Int(int64(one))
		case []string:
			w.Array(len(one))
			for _, text := range one {
				w.Bulk(text)
			}
		}
	}
}

// Array begins an array of n replies, which follow.
func (w *Writer) Array(n int) { w.header('*', int64(n)) }

// Map begins a map of n pairs of replies, which follow: a flat array in version 2.
func (w *Writer) Map(n int) {
	if w.v3 {
		w.header('%', int64(n))
	} else {
		w.header('*', int64(2*n))
	}
}

// Fill waits for the source once, and receives more. The error comes from the source or from reserve, or is a
// *ProtocolError for a request that is too large. io.EOF within a request becomes io.ErrUnexpectedEOF.
func (r *Reader) Fill() error {
	if err := r.makeSpace(); err != nil {
		return err
	}
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	switch {
	case n > 0:
		return nil // a lasting error comes again
	case err == io.EOF && r.Partial():
		return io.ErrUnexpectedEOF
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// makeSpace leaves at least a quarter of the buffer free.
func (r *Reader) makeSpace() error {
	held := r.end - r.start
	switch {
	case held == 0 && len(r.buf) > r.limits.Buffer:
		_ = r.reserve(r.limits.Buffer - len(r.buf)) // giving back does not fail
		r.buf = make([]byte, r.limits.Buffer)
	case len(r.buf)-r.end >= len(r.buf)/4:
		return nil
	case held > len(r.buf)-len(r.buf)/4:
		if err := r.grow(held); err != nil {
			return err
		}
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
	}
	r.at -= r.start
	r.start, r.end = 0, held
	return nil
}

// grow doubles the buffer for a request of which held bytes have come, up to the largest
// request.
func (r *Reader) grow(held int) error {
	size := min(2*len(r.buf), r.limits.Request)
	switch {
	case held >= size:
		return r.tooLarge()
	case size > len(r.buf):
		if err := r.reserve(size - len(r.buf)); err != nil {
			return err
		}
		grown := make([]byte, size)
		copy(grown, r.buf[r.start:r.end])
		r.buf = grown
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
	}
	return nil
}

// Release gives back what was reserved. The Reader is not to be used after it.
func (r *Reader) Release() {
	if more := len(r.buf) - r.limits.Buffer; more > 0 {
		_ = r.reserve(-more) // giving back does not fail
	}
	r.giveBackArgs()
}

// reserveArg ensures memory for one more argument. It doubles the memory when there is none left.
func (r *Reader) reserveArg() error {
	have := len(r.spans)
	if have < cap(r.spans) || have < keptArgs {
		return nil
	}
	if err := r.reserve(have * argBytes); err != nil {
		return err
	}
	r.taken += have * argBytes
	grown := make([]span, have, 2*have)
	copy(grown, r.spans)
	r.spans, r.args = grown, make([][]byte, 0, 2*have)
	return nil
}

func (r *Reader) giveBackArgs() {
	if r.taken > 0 {
		_ = r.reserve(-r.taken) // giving back does not fail
		r.taken = 0
	}
}

// ProtocolError is a fault of the client after which the start of its next request can't be found. The connection must
// be closed after the client got the error. The texts are those that Redis has, if it has one.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "Protocol error: " + e.Message }

func fault(format string, args ...any) error { return &ProtocolError{fmt.Sprintf(format, args...)} }
