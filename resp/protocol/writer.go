package protocol

import (
	"io"
	"math"
	"strconv"
)

// flushBytes is how many bytes of replies a Writer gathers before it writes them by itself.
const flushBytes = 16 << 10

// keptBytes is the largest buffer that a Writer keeps.
const keptBytes = 2 * flushBytes

// Writer writes replies to one client. Create it with NewWriter; it is for one goroutine. An
// error of the connection is kept for Flush: until then writing does nothing more.
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

// V3 tells whether replies are in version 3.
func (w *Writer) V3() bool { return w.v3 }

// Hold, with true, keeps all replies until Hold(false), however many: for replies that are
// written while others wait for the caller. Who holds bounds them.
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
func (w *Writer) BulkBytes(text []byte) {
	w.buf = append(strconv.AppendInt(append(w.buf, '$'), int64(len(text)), 10), '\r', '\n')
	w.buf = append(append(w.buf, text...), '\r', '\n')
	w.written()
}

// Null writes that there is nothing.
func (w *Writer) Null() {
	if w.v3 {
		w.buf = append(w.buf, "_\r\n"...)
	} else {
		w.buf = append(w.buf, "$-1\r\n"...)
	}
	w.written()
}

// NullArray is Null in the place of an array.
func (w *Writer) NullArray() {
	if w.v3 {
		w.buf = append(w.buf, "_\r\n"...)
	} else {
		w.buf = append(w.buf, "*-1\r\n"...)
	}
	w.written()
}

// Bool writes true or false; 1 or 0 in version 2.
func (w *Writer) Bool(b bool) {
	switch {
	case w.v3 && b:
		w.buf = append(w.buf, "#t\r\n"...)
	case w.v3:
		w.buf = append(w.buf, "#f\r\n"...)
	case b:
		w.buf = append(w.buf, ":1\r\n"...)
	default:
		w.buf = append(w.buf, ":0\r\n"...)
	}
	w.written()
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
