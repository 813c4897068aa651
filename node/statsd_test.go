package node_test

import (
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// Hits by StatsD are hits as others; figures are among the metrics; a stop counts what was sent, and keeps it.
func TestANodeWithStatsD(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.StatsD.Addr, cfg.StatsD.Key = "127.0.0.1:0", "{name}:{tag:route}"
	n := nodetest.Open(t, cfg)
	conn, err := net.Dial("udp", n.StatsDAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "http:3|c|#route:/a\nhttp:1|ms"); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "the hits are counted", func() bool { return count(t, n, "http:/a") == 3 })
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{
		`weir_listener_datagrams_total{listener="statsd"} 1`, `weir_listener_datagrams_dropped_total{listener="statsd"} 0`, `weir_listener_requests_total{command="counter",listener="statsd"} 1`,
		`weir_listener_rejected_total{listener="statsd",reason="unsupported_timer"} 1`, `weir_listener_requests_failed_total{listener="statsd"} 1`, `weir_listener_connections_bound{listener="statsd"} 1024`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if _, err := io.WriteString(conn, "http:4|c|#route:/a"); err != nil {
		t.Fatal(err)
	}
	nodetest.Close(t, n)
	cfg.StatsD.Addr = ""
	if n := nodetest.Open(t, cfg); count(t, n, "http:/a") != 7 || n.StatsDAddr() != "" {
		t.Errorf("%d hits after a restart", count(t, n, "http:/a"))
	}
}

// StatsD is loopback's, or an identity's.
func TestStatsDIsNotOpenByMistake(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("identities:\n- {name: web, permissions: [{role: ingest}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		addr, identity, tokens string
		insecure               bool
		wrong                  string
	}{
		{addr: "127.0.0.1:0"},
		{addr: "[::1]:0"},
		{addr: "127.0.0.1:0", identity: "web", tokens: tokens},
		{addr: "0.0.0.0:0", identity: "web", tokens: tokens},
		{addr: "0.0.0.0:0", insecure: true},
		{addr: "0.0.0.0:0", wrong: "--statsd 0.0.0.0:0"},
		{addr: ":0", wrong: "--insecure"},
		{addr: "127.0.0.1:0", tokens: tokens, wrong: "needs --statsd-identity NAME"},
		{addr: "0.0.0.0:0", tokens: tokens, insecure: true, wrong: "needs --statsd-identity NAME"},
		{addr: "127.0.0.1:0", identity: "web", wrong: "give --tokens"},
		{identity: "web", tokens: tokens, wrong: "give --statsd too"},
		{addr: "here", wrong: "not an address"},
	} {
		cfg := node.Config{Ephemeral: true, Insecure: c.insecure}
		cfg.StatsD.Addr, cfg.StatsD.Identity, cfg.Tokens.File = c.addr, c.identity, c.tokens
		if err := cfg.Validate(); (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	cfg := node.Config{Ephemeral: true}
	cfg.HTTP.Addr, cfg.StatsD.Addr, cfg.StatsD.Identity, cfg.Tokens.File = "127.0.0.1:0", "127.0.0.1:0", "nobody", tokens
	if n, err := node.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("an identity that is not there: %v", err)
		nodetest.Close(t, n)
	}
}
