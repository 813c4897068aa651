package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// run starts a's server as main does and returns its address and the function
// that stops it and returns what Run did.
func (a *testAPI) run() (addr string, stop func() error) {
	a.Helper()
	if err := a.server.Listen(); err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.Context())
	done := make(chan error, 1)
	go func() { done <- a.server.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	a.Cleanup(func() {
		if !stopped {
			stop()
		}
	})
	return a.server.Addr(), stop
}

// beginPost sends all but the end of a request with one hit, so that it is in
// flight until finish is called, which returns the status line.
func beginPost(t *testing.T, addr string) (finish func() string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	answers := bufio.NewReader(conn)
	line, err := answers.ReadString('\n') // the handler reads the body now
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return func() string {
		io.WriteString(conn, "a\n")
		line, err := answers.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(line)
	}
}

func TestGracefulStop(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0"}})
	addr, stop := a.run()
	finish := beginPost(t, addr)

	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	a.wantProblem(a.get("/readyz"), api.CodeStopping, 503) // by the other listener of this test
	if r := a.get("/healthz"); r.status != 200 {
		t.Errorf("/healthz: %d while stopping", r.status)
	}
	if got := finish(); got != "HTTP/1.1 200 OK" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	if got := a.engine.Stats().Hits; got != 1 {
		t.Errorf("%d hits were counted, want 1", got)
	}
}

func TestStopIsBounded(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0", StopTimeout: 20 * time.Millisecond}})
	addr, stop := a.run()
	beginPost(t, addr) // and never finish
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run: got %v, want it to say that a request was cut off", err)
	}
}

func TestDrainDelay(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0", DrainDelay: 5 * time.Second}})
	addr, stop := a.run()
	a.url = "http://" + addr
	if r := a.get("/readyz"); r.status != 200 {
		t.Fatalf("/readyz: %d %s", r.status, r.body)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !a.server.draining.Load() {
		runtime.Gosched()
	}
	a.wantProblem(a.get("/readyz"), api.CodeStopping, 503) // the listener is open still
	if r := a.do(http.MethodPost, "/v1/hits", "text/plain", "a"); r.status != 200 {
		t.Errorf("a hit while draining: %d %s", r.status, r.body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestListenTwice(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0"}})
	if got := a.server.Addr(); got != "" {
		t.Errorf("Addr before Listen: %q", got)
	}
	addr, _ := a.run()
	if err := a.server.Listen(); err != nil || a.server.Addr() != addr {
		t.Errorf("a second Listen: %v, address %s, want %s", err, a.server.Addr(), addr)
	}
	b := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: addr}})
	if err := b.server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("Run on an address in use: %v", err)
	}
}

func TestConfig(t *testing.T) {
	eng, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	for field, cfg := range map[string]options{
		"Addr":              {HTTP: Config{Addr: "localhost"}},
		"MaxBodyBytes":      {Service: service.Config{MaxBodyBytes: 1}},
		"MaxLineBytes":      {HTTP: Config{MaxLineBytes: 2 << 20}},
		"MaxBatch":          {Service: service.Config{MaxBatch: -1}},
		"MaxAnswers":        {Service: service.Config{MaxAnswers: 1e6}},
		"MaxInFlight":       {Service: service.Config{MaxInFlight: -1}},
		"MaxConns":          {HTTP: Config{MaxConns: 1e7}},
		"MaxInlinePer":      {Service: service.Config{MaxInlinePer: -1}},
		"MaxDurable":        {Service: service.Config{MaxDurable: -1}},
		"MinRate":           {HTTP: Config{MinRate: 1}},
		"MaxBufferedBytes":  {Service: service.Config{MaxBufferedBytes: 16 << 20}},
		"DurableTimeout":    {Service: service.Config{DurableTimeout: -1}},
		"ReadHeaderTimeout": {HTTP: Config{ReadHeaderTimeout: -1}},
		"ReadTimeout":       {HTTP: Config{ReadTimeout: 48 * time.Hour}},
		"WriteTimeout":      {HTTP: Config{WriteTimeout: time.Second}},
		"IdleTimeout":       {HTTP: Config{IdleTimeout: 1}},
		"DrainDelay":        {HTTP: Config{DrainDelay: -1}},
		"StopTimeout":       {HTTP: Config{StopTimeout: -1}},
	} {
		_, err := newServer(eng, cfg)
		var e *engine.Error
		if !errors.As(err, &e) || e.Code != api.CodeInvalidConfig || e.Field != field || !strings.HasPrefix(e.Message, field+" ") && field != "Addr" {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
