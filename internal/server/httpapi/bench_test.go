package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/policy"
)

const batchLines = 1000

func benchServer(b *testing.B) *Server {
	b.Helper()
	e, err := engine.New(engine.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	quietly := slog.New(slog.DiscardHandler)
	s, err := newServer(e, options{Service: service.Config{Logger: quietly}, HTTP: Config{Addr: "127.0.0.1:0", Logger: quietly}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// batch writes batchLines hits of 5000 keys of ordinary length.
func batch(line string) []byte {
	var body bytes.Buffer
	for i := range batchLines {
		fmt.Fprintf(&body, line, (i*7919)%5000)
	}
	return body.Bytes()
}

func BenchmarkIngestText(b *testing.B) { benchmarkIngest(b, "text/plain", "url:/articles/%d\n") }
func BenchmarkIngestNDJSON(b *testing.B) {
	benchmarkIngest(b, "application/x-ndjson", "{\"key\":\"url:/articles/%d\",\"n\":1}\n")
}
func BenchmarkIngestTextAt(b *testing.B) {
	benchmarkIngest(b, "text/plain", fmt.Sprintf("url:/articles/%%d 1 %d\n", time.Now().Unix()))
}

// benchmarkIngest sends batches through the whole handler, without a network.
func benchmarkIngest(b *testing.B, contentType, line string) {
	handler := benchServer(b).Handler()
	body := batch(line)
	src := bytes.NewReader(nil)
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/hits", nil)
	req.Header.Set("Content-Type", contentType)
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(body)
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(src)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchLines, "ns/hit")
}

// BenchmarkIngestWire sends the batches over one loopback connection; its time
// holds the client's writing too, which shares the processor.
func BenchmarkIngestWire(b *testing.B) {
	s := benchServer(b)
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()
	conn, err := net.Dial("tcp", hs.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	body := batch("url:/articles/%d\n")
	request := append(fmt.Appendf(nil, "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
	answer := make([]byte, 4096)
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
			b.Fatalf("%v %s", err, answer[:n])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchLines, "ns/hit")
}

// quiet is a ResponseWriter that keeps nothing.
type quiet struct {
	header http.Header
	status int
}

func (q *quiet) Header() http.Header         { return q.header }
func (q *quiet) WriteHeader(status int)      { q.status = status }
func (q *quiet) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkAllow is one decision through the whole handler, without a network.
func BenchmarkAllow(b *testing.B) {
	for _, bench := range []struct{ name, body string }{
		{"policy", `{"key":"login:bob:x","limit":"login"}`},
		{"matching", `{"key":"login:bob:x"}`},
		{"inline", `{"key":"user:42","limit":{"n":1000,"per":"1s"}}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := benchServer(b)
			set, err := policy.Parse("policies.yaml", []byte(testPolicies))
			if err == nil {
				err = s.service.Backend().Policies.Replace(set)
			}
			if err != nil {
				b.Fatal(err)
			}
			handler := s.Handler()
			src := bytes.NewReader(nil)
			req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/allow", nil)
			req.Header.Set("Content-Type", "application/json")
			b.ReportAllocs()
			for b.Loop() {
				src.Reset([]byte(bench.body))
				req.ContentLength = int64(len(bench.body))
				req.Body = io.NopCloser(src)
				w := &quiet{header: http.Header{}}
				handler.ServeHTTP(w, req)
				if w.status != http.StatusOK && w.status != http.StatusTooManyRequests {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// BenchmarkHit is a request of one hit through the whole handler, without a network.
func BenchmarkHit(b *testing.B) {
	for _, bench := range []struct{ name, contentType, body string }{
		{"text", "text/plain", "user:42"},
		{"json", "application/json", `{"key":"user:42"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			handler := benchServer(b).Handler()
			src := bytes.NewReader(nil)
			req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/hits", nil)
			req.Header.Set("Content-Type", bench.contentType)
			b.ReportAllocs()
			for b.Loop() {
				src.Reset([]byte(bench.body))
				req.ContentLength = int64(len(bench.body))
				req.Body = io.NopCloser(src)
				w := &quiet{header: http.Header{}, status: http.StatusOK}
				handler.ServeHTTP(w, req)
				if w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}
