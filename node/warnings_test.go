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

// A key that comes to its warning calls the address that the node has, and the metrics say so.
func TestANodeThatWarns(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls <- r.Header.Get("Webhook-Signature") + " " + string(body)
	}))
	defer receiver.Close()
	cfg := config(t, "")
	cfg.Ephemeral = true
	cfg.Policies.File = written(t, "limits:\n- {name: login, keys: \"login:*\", limit: 5, per: 1h, warn: 80%}\n")
	cfg.Warnings = node.Warnings{URL: receiver.URL, SecretFile: written(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")}
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
	if got := <-calls; !strings.HasPrefix(got, "v1,") || !strings.Contains(got, `"data":{"name":"login","key":"login:bob","used":4,"limit":5,"per_s":3600,"burst":5}}`) {
		t.Error(got)
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{"weir_warnings_sent_total ", "weir_warnings_failed_total 0", "weir_warnings_dropped_total 0", "weir_warnings_waiting 0"} {
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

// An address that warnings can't be sent to, or not safely, is refused, as is a secret that is none.
func TestWarningsThatCantBe(t *testing.T) {
	t.Parallel()
	good, bad := written(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), written(t, "secret")
	for _, test := range []struct {
		warnings node.Warnings
		want     string
	}{
		{node.Warnings{URL: "https://a.example/hook", SecretFile: good}, ""},
		{node.Warnings{URL: "http://[::1]:80/hook", SecretFile: good}, ""},
		{node.Warnings{URL: "http://a.example/hook", SecretFile: good, Insecure: true}, ""},
		{node.Warnings{URL: "http://a.example/hook", SecretFile: good}, "--insecure-peers"},
		{node.Warnings{URL: "https://a.example/hook"}, "--warn-secret-file"},
		{node.Warnings{SecretFile: good}, "--warn-url"},
		{node.Warnings{URL: "a.example", SecretFile: good}, "https://HOST/PATH"},
		{node.Warnings{URL: "https://me:mine@a.example", SecretFile: good}, "without a name"},
	} {
		cfg := node.Config{Ephemeral: true, Warnings: test.warnings}
		if err := cfg.Validate(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.warnings, err)
		}
	}
	for file, want := range map[string]string{bad: "openssl rand", bad + "no": "no such file"} {
		cfg := config(t, "")
		cfg.Ephemeral = true
		cfg.Warnings = node.Warnings{URL: "http://127.0.0.1:1", SecretFile: file}
		if _, err := node.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
