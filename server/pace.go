package server

import (
	"io"
	"net/http"
	"time"
)

// pace is how fast a client must send or take: it has a while for the first bytes, and
// a second more for each rate bytes that have moved. A byte now and then is not enough,
// and a large body has the time that it needs. What the server itself takes does not
// count.
type pace struct {
	left time.Duration // that the client has
	rate int64         // bytes per second
}

// moved takes the time that n bytes took, and gives what they earn.
func (p *pace) moved(n int, took time.Duration) {
	p.left += time.Duration(n)*time.Second/time.Duration(p.rate) - took
}

// pacedBody is a body that has to arrive with a pace. The server reads it in
// pieces of many kilobytes, so that two readings of the clock cost little.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *conn
	pace    pace
	answer  time.Duration // that is left for the answer, after the body
}

func (b *pacedBody) Read(piece []byte) (int, error) {
	start := time.Now()
	// A caller's own server may take no deadlines: then it has its own.
	_ = b.control.SetReadDeadline(start.Add(b.pace.left))
	_ = b.control.SetWriteDeadline(start.Add(b.pace.left + b.answer))
	b.conn.waits(true)
	n, err := b.ReadCloser.Read(piece)
	b.conn.waits(false)
	b.pace.moved(n, time.Since(start))
	return n, err
}

// pacedWriter is an answer that has to be taken with a pace.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    pace
}

func (w *pacedWriter) Write(piece []byte) (int, error) {
	start := time.Now()
	_ = w.control.SetWriteDeadline(start.Add(w.pace.left)) // as in pacedBody
	n, err := w.ResponseWriter.Write(piece)
	w.pace.moved(n, time.Since(start))
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *Server) newPace() pace { return pace{s.cfg.ReadTimeout, s.cfg.MinRate} }

func (s *Server) pacedAnswer(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w, http.NewResponseController(w), s.newPace()}
}
