package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAllowWire is one decision over one loopback connection, beside a handler that
// only reads the body, and one that also answers as much, with the same deadlines. Its time, and the processor's, hold the client's writing too.
func BenchmarkAllowWire(b *testing.B) {
	benchmarkWire(b, "/v1/allow", `{"key":"user:42","limit":{"n":1000,"per":"1s"}}`)
}

// BenchmarkHitWire is BenchmarkAllowWire for one hit.
func BenchmarkHitWire(b *testing.B) { benchmarkWire(b, "/v1/hits", `{"key":"user:42"}`) }

func benchmarkWire(b *testing.B, path, body string) {
	request := fmt.Appendf(nil, "POST "+path+" HTTP/1.1\r\nHost: weir\r\nUser-Agent: Go-http-client/1.1\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.Run("server=weir", func(b *testing.B) {
		s := benchServer(b)
		if err := s.Listen(); err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		askAgain(b, s.Addr(), request)
		stop()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
	b.Run("server=answers", func(b *testing.B) {
		hs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"counted":1,"late":0,"too_late":0,"rejected_lines":0,"rejected":[]}`)
		}))
		cfg := Config{}.WithDefaults()
		hs.Config.ReadHeaderTimeout, hs.Config.ReadTimeout, hs.Config.WriteTimeout, hs.Config.IdleTimeout = cfg.ReadHeaderTimeout, cfg.ReadTimeout, cfg.WriteTimeout, cfg.IdleTimeout
		hs.Start()
		defer hs.Close()
		askAgain(b, hs.Listener.Addr().String(), request)
	})
	b.Run("server=empty", func(b *testing.B) {
		hs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		defer hs.Close()
		askAgain(b, hs.Listener.Addr().String(), request)
	})
}

func askAgain(b *testing.B, addr string, request []byte) {
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 4096)
	before := processorTime(b)
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(answer)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) || n < 20 {
			b.Fatalf("%v %s", err, answer[:n])
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// processorTime is what the process has computed, in both modes.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func serveOnce(s *Server, body string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, newAllowRequest(body))
	return w.Code
}

func newAllowRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/allow", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}
