package pace

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-counter/weir/service/conns"
)

// Pace is how fast a client must send or take: it has a while for the first bytes, and
// a second more for each rate bytes that have moved. A byte now and then is not enough,
// and a large body has the time that it needs. What the server itself takes does not
// count.
type Pace struct {
	Left time.Duration // that the client has
	Rate int64         // bytes per second, above 0
}

// moved takes the time that n bytes took, and gives what they earn.
func (p *Pace) moved(n int, took time.Duration) {
	p.Left += time.Duration(n)*time.Second/time.Duration(p.Rate) - took
}

// Body is a body that has to arrive with a pace. The server reads it in
// pieces of many kilobytes, so that two readings of the clock cost little.
type Body struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *conns.Conn
	pace    Pace
	answer  time.Duration // that is left for the answer, after the body
}

// NewBody is r's body, which has to arrive with a pace and then leaves a while for its answer.
func NewBody(w http.ResponseWriter, r *http.Request, pace Pace, answer time.Duration) *Body {
	return &Body{r.Body, http.NewResponseController(w), Of(r), pace, answer}
}

// Read implements io.Reader.
func (b *Body) Read(piece []byte) (int, error) {
	start := time.Now()
	// A caller's own server may take no deadlines: then it has its own.
	_ = b.control.SetReadDeadline(start.Add(b.pace.Left))
	_ = b.control.SetWriteDeadline(start.Add(b.pace.Left + b.answer))
	b.conn.Waits(true)
	n, err := b.ReadCloser.Read(piece)
	b.conn.Waits(false)
	b.pace.moved(n, time.Since(start))
	return n, err
}

// Writer is an answer that has to be taken with a pace.
type Writer struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    Pace
}

// NewWriter is w, taken with a pace.
func NewWriter(w http.ResponseWriter, pace Pace) *Writer {
	return &Writer{w, http.NewResponseController(w), pace}
}

// NoDeadline lets go of the deadline that there is until the next Write, after work of the server's
// own.
func (w *Writer) NoDeadline() { _ = w.control.SetWriteDeadline(time.Time{}) } // as in Body

// Write implements io.Writer.
func (w *Writer) Write(piece []byte) (int, error) {
	start := time.Now()
	_ = w.control.SetWriteDeadline(start.Add(w.pace.Left)) // as in Body
	n, err := w.ResponseWriter.Write(piece)
	w.pace.moved(n, time.Since(start))
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
