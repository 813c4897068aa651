package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// From the start the address answers: first that the server is not there yet, and
// then as the server, on the same connections.
func TestOpening(t *testing.T) {
	var done atomic.Int64
	cfg := Config{Addr: "127.0.0.1:0"}
	o, err := Open(cfg, func() Phase { return Phase{"loading", strings.Repeat("#", int(done.Add(1)))} })
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	a := newTestAPI(t, engine.Config{}, options{HTTP: cfg, opening: o})
	a.url = "http://" + o.Addr()
	if r := a.get("/healthz"); r.status != http.StatusOK || strings.TrimSpace(r.body) != `{"detail":"#","status":"loading"}` {
		t.Errorf("/healthz: %d %s", r.status, r.body)
	}
	for _, path := range []string{"/readyz", "/v1/count?key=a", "/metrics", "/nowhere"} {
		r := a.get(path)
		a.wantProblem(r, api.CodeStarting, http.StatusServiceUnavailable)
		if r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, `"loading: ##`) {
			t.Errorf("GET %s: %v %s", path, r.header, r.body)
		}
	}
	if _, err := Open(Config{Addr: o.Addr()}, nil); err == nil || !strings.Contains(err.Error(), o.Addr()) {
		t.Errorf("the address is in use: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.server.Run(ctx) }()
	for a.get("/readyz").status != http.StatusOK {
		if len(ended) > 0 {
			t.Fatal(<-ended)
		}
	}
	a.post("a 2")
	if got := a.server.Addr(); got != o.Addr() {
		t.Errorf("Addr: %s, want %s", got, o.Addr())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(a.url + "/healthz"); err == nil {
		t.Error("it answers after its end")
	}
}
