package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// This part tells the service manager how a server does, as sd_notify(3) says.
//
// Invariant: READY=1 is sent once, and only when /readyz says so; STOPPING=1 is sent before the server
// ends. There is no answer.

// readyEvery is how often a server that starts asks itself whether it is ready.
const readyEvery = 100 * time.Millisecond

// Notify tells systemd (Type=notify) when /readyz says that the server is ready, and when the server
// stops. The socket is NOTIFY_SOCKET of the environment; with "" nothing is sent. The result waits
// until all is sent.
func Notify(ctx context.Context, socket string, handler http.Handler, log *slog.Logger) (stop func()) {
	if socket == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if untilReady(ctx, handler) {
			tell(socket, "READY=1\nSTATUS=ready", log)
		}
		<-ctx.Done()
		tell(socket, "STOPPING=1\nSTATUS=stopping", log)
	}()
	return func() {
		cancel()
		<-done
	}
}

// untilReady returns true once /readyz is 200, or false when ctx is done.
func untilReady(ctx context.Context, handler http.Handler) bool {
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		if answer := (&statusOnly{}); ask(ctx, handler, answer) && answer.code == http.StatusOK {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// ask asks /readyz, in this process.
func ask(ctx context.Context, handler http.Handler, answer http.ResponseWriter) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/readyz", nil)
	if err == nil {
		handler.ServeHTTP(answer, r)
	}
	return err == nil
}

// statusOnly is an answer of which only the status counts.
type statusOnly struct {
	header http.Header
	code   int
}

func (s *statusOnly) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *statusOnly) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
}

func (s *statusOnly) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(b), nil
}

// tell sends one message as sd_notify(3) does. A socket that begins with @ is abstract.
func tell(socket, state string, log *slog.Logger) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close() // it was sent, or not
	}
	if err != nil {
		log.Warn("could not notify systemd", "state", state, "error", err)
	}
}
