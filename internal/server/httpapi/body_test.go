package httpapi

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

func compress(t *testing.T, encoding string, plain []byte) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if encoding == "zstd" {
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedBodies(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxBodyBytes: 1 << 20}})
	// Twice each: the second goes through a decoder from the pool.
	for _, encoding := range []string{"gzip", "zstd", "GZIP", "x-gzip", "zstd", "gzip"} {
		body := compress(t, strings.ToLower(encoding), []byte(strings.Repeat("a 2\n", 10_000)))
		r := a.do(http.MethodPost, "/v1/hits", "text/plain", body, "Content-Encoding", encoding)
		if r.status != 200 || !strings.HasPrefix(r.body, `{"counted":20000,`) {
			t.Errorf("%s: %d %s", encoding, r.status, r.body)
		}
	}
	for _, encoding := range []string{"br", "gzip, gzip", "deflate"} {
		r := a.do(http.MethodPost, "/v1/hits", "text/plain", "a", "Content-Encoding", encoding)
		a.wantProblem(r, api.CodeUnsupportedEncoding, 415)
		if r.header.Get("Accept-Encoding") != AcceptedEncodings {
			t.Errorf("%s: Accept-Encoding %q", encoding, r.header.Get("Accept-Encoding"))
		}
	}
}

func TestBrokenCompression(t *testing.T) {
	for _, encoding := range []string{"gzip", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			a := newTestAPI(t, engine.Config{}, options{})
			a.wantProblem(a.do(http.MethodPost, "/v1/hits", "text/plain", "not compressed", "Content-Encoding", encoding), api.CodeBodyBroken, 400)
			if r := a.do(http.MethodPost, "/v1/hits", "text/plain", "not compressed", "Content-Encoding", encoding); !strings.Contains(r.body, "the body is not "+encoding) {
				t.Error(r.body)
			}
			whole := compress(t, encoding, []byte(strings.Repeat("a\n", 1000)))
			a.wantProblem(a.do(http.MethodPost, "/v1/hits", "text/plain", whole[:len(whole)-6], "Content-Encoding", encoding), api.CodeBodyBroken, 400)
			if r := a.do(http.MethodPost, "/v1/hits", "text/plain", whole, "Content-Encoding", encoding); r.status != 200 {
				t.Errorf("after broken ones: %d %s", r.status, r.body)
			}
		})
	}
}

func TestBodyTooLarge(t *testing.T) {
	const limit = 100_000
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxBodyBytes: limit}})
	line := "a 1 1769860800\n"
	fits, over := strings.Repeat(line, limit/len(line)), strings.Repeat(line, limit/len(line)+1)

	if r := a.do(http.MethodPost, "/v1/hits", "text/plain", fits); r.status != 200 {
		t.Fatalf("just below the limit: %d %s", r.status, r.body)
	}
	before := a.engine.Stats().Hits
	r := a.do(http.MethodPost, "/v1/hits", "text/plain", over) // Content-Length says so
	a.wantProblem(r, api.CodeBodyTooLarge, 413)
	if got := a.engine.Stats().Hits; got != before {
		t.Errorf("a body declared too large counted %d hits", got-before)
	}

	bodies := map[string]string{"": over, "gzip": compress(t, "gzip", []byte(over)), "zstd": compress(t, "zstd", []byte(over))}
	for encoding, body := range bodies {
		before := a.engine.Stats().Hits
		req, err := http.NewRequest(http.MethodPost, a.url+"/v1/hits", io.MultiReader(strings.NewReader(body))) // no length known
		if err != nil {
			t.Fatal(err)
		}
		if encoding != "" {
			req.Header.Set("Content-Encoding", encoding)
		}
		r := a.send(req)
		a.wantProblem(r, api.CodeBodyTooLarge, 413)
		if counted := a.engine.Stats().Hits - before; counted != 0 {
			t.Errorf("%q: %d hits of a refused body were counted", encoding, counted)
		}
	}
}

func TestBomb(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxBodyBytes: 1 << 20}})
	bomb := bytes.Repeat([]byte{'x'}, 64<<20)
	for _, encoding := range []string{"gzip", "zstd"} {
		r := a.do(http.MethodPost, "/v1/hits", "text/plain", compress(t, encoding, bomb), "Content-Encoding", encoding)
		a.wantProblem(r, api.CodeBodyTooLarge, 413)
	}
}

func TestZstdWindow(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for window, want := range map[int]int{8 << 20: 200, 16 << 20: 413} {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(z, "a 2\n")
		if err := z.Flush(); err != nil { // so that the frame is not a small single segment
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if r := a.do(http.MethodPost, "/v1/hits", "text/plain", b.String(), "Content-Encoding", "zstd"); r.status != want {
			t.Errorf("a window of %d bytes: %d %s, want %d", window, r.status, r.body, want)
		}
	}
}

// Of a body that is cut off nothing is counted, so that it can be sent again.
func TestCutBody(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\na 7\na 12")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(answer, []byte(`"code":"body_broken"`)) {
		t.Errorf("got %s", answer)
	}
	if got := a.engine.Stats().Hits; got != 0 {
		t.Errorf("%d hits were counted", got)
	}
}

// A client that stops sending is answered, and nothing is counted.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0", ReadTimeout: 2 * time.Second, ReadHeaderTimeout: 2 * time.Second}})
	addr, _ := a.run()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\na 7\na 12")
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(answer, []byte(`"code":"body_timeout"`)) || a.engine.Stats().Hits != 0 {
		t.Errorf("got %s", answer)
	}
}
