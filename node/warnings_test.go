package node_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// A key that comes to its warning calls the webhook that the node has, and the metrics say so.
func TestANodeThatWarns(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls <- string(body)
	}))
	defer receiver.Close()
	cfg := config(t, "")
	cfg.Ephemeral = true
	cfg.Policies.File = written(t, "limits:\n- {name: login, keys: \"login:*\", limit: 5, per: 1h, warn: 80%}\n")
	cfg.Alerts.File = written(t, "to: [{name: ops, url: '"+receiver.URL+"'}]\nalerts: [{name: near, limits: 'log*', to: ops}]")
	n := nodetest.Open(t, cfg)
	for range 5 {
		request := httptest.NewRequest("POST", "http://127.0.0.1/v1/allow", strings.NewReader(`{"key":"login:bob"}`))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		n.Handler().ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			t.Fatal(answer.Code, answer.Body)
		}
	}
	if got := <-calls; !strings.Contains(got, `"data":{"alert":"near","name":"login","key":"login:bob","used":4,"limit":5,"per_s":3600,"burst":5}}`) {
		t.Error(got)
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{"weir_alerts_sent_total ", "weir_alerts_failed_total 0", "weir_alerts_dropped_total 0", "weir_alerts_waiting 0"} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	nodetest.Close(t, n)
	if len(calls) != 0 {
		t.Errorf("called again: %s", <-calls)
	}
}

func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A node does not start with a file of alerts that can't be used.
func TestAlertsThatCantBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"alerts: []": "write 1 to 100", "to: [{name: ops, url: 'http://a.example/hook'}]\nalerts: [{name: near, limits: '*', to: ops}]": "--insecure-peers"} {
		cfg := config(t, "")
		cfg.Ephemeral = true
		cfg.Alerts.File = written(t, text)
		if _, err := node.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--alerts") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
