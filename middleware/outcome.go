package middleware

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// observe serves a request, and reports the status of its answer. A handler that panics has failed, whatever it wrote.
func (m *Middleware) observe(w http.ResponseWriter, r *http.Request, next http.Handler, outcome func(int, func(error))) {
	o := &observed{ResponseWriter: w}
	status := http.StatusInternalServerError
	defer func() {
		outcome(status, func(err error) {
			m.cfg.OnError(r, fmt.Errorf("the outcome is not known to Weir, and the request stays counted: %w", err))
		})
	}()
	next.ServeHTTP(o, r)
	if status = o.status; status == 0 {
		status = http.StatusOK
	}
}

// observed notes the status of an answer.
type observed struct {
	http.ResponseWriter
	status int // 0: none yet
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observed) answers(status int) {
	if o.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		o.status = status
	}
}

// WriteHeader implements http.ResponseWriter.
func (o *observed) WriteHeader(status int) {
	o.answers(status)
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(b []byte) (int, error) {
	o.answers(http.StatusOK)
	return o.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom: the server's can send files without copying them.
func (o *observed) ReadFrom(from io.Reader) (int64, error) {
	o.answers(http.StatusOK)
	return io.Copy(o.ResponseWriter, from)
}

// Flush implements http.Flusher. It does nothing where the server can't.
func (o *observed) Flush() {
	o.answers(http.StatusOK)
	_ = http.NewResponseController(o.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. What is written then is not seen: it counts as 101 Switching Protocols.
func (o *observed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(o.ResponseWriter).Hijack()
	if err == nil {
		o.answers(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
