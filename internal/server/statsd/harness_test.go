package statsd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// start is the second at which the clock of a test stands.
var start = time.Unix(1_769_860_800, 0)

// testServer is a server on a loopback port with a real engine.
type testServer struct {
	testing.TB
	*Server
	engine *engine.Engine
	log    *strings.Builder
	stop   func() error
}

// newTestServer starts one; tokens is a tokens file, "" none.
func newTestServer(t testing.TB, cfg Config, tokens string) *testServer {
	t.Helper()
	return newTestServerAt(t, cfg, tokens, nil)
}

// newTestServerAt starts one that takes over an address, if there is one.
func newTestServerAt(t testing.TB, cfg Config, tokens string, opening *Opening) *testServer {
	t.Helper()
	e, err := engine.New(engine.Config{Now: func() time.Time { return start }, Retention: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var out strings.Builder // slog writes a record at a time
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &out), nil))
	backend := service.Backend{Engine: e}
	if tokens != "" {
		set, err := auth.Parse("tokens", []byte(tokens))
		if err != nil {
			t.Fatal(err)
		}
		backend.Tokens = access.NewTokens(set)
	}
	svc, err := service.New(backend, service.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr, cfg.Logger = "127.0.0.1:0", log
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	s, err := New(svc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if opening != nil {
		s.TakeOver(opening)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	ts := &testServer{TB: t, Server: s, engine: e, log: &out}
	ts.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := ts.stop(); err != nil {
			t.Error(err)
		}
	})
	return ts
}

// send sends a text by a network.
func (s *testServer) send(network, text string) {
	s.Helper()
	conn, err := net.Dial(network, s.Addr())
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.Fatal(err)
	}
}

// wantCount waits until a key has as many hits.
func (s *testServer) wantCount(key string, want uint64) {
	s.Helper()
	var got engine.Count
	eventually(s.TB, "hits are counted", func() bool {
		var err error
		if got, err = s.engine.Count(key, 12*time.Hour); err != nil {
			s.Fatal(err)
		}
		return got.Estimate == want
	})
}

// refusedBy is how many lines were refused, by reason.
func (s *testServer) refusedBy() map[string]uint64 {
	by := map[string]uint64{}
	for _, r := range s.Figures().Rejected {
		if r.Count > 0 {
			by[r.Kind] = r.Count
		}
	}
	return by
}

// eventually fails the test if ok does not become true. That of jointest would have fuzzing instrument a NATS server.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const patience = time.Minute
	for began := time.Now(); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
