package envoy

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/server/listener"
)

// eventually waits for a condition that comes true soon, with the file looked at again.
func (s *testServer) eventually(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			s.Fatalf("not in a minute: %s", what)
		}
		s.Reload()
		s.ask("edge", "nothing=1")
	}
}

// Files that change are read again; a broken one leaves what was. What keys have used stays.
func TestReload(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{limits: tableLimits})
	s.says("edge", "ip=1 -> OK, ok 2/3")
	s.write("limits.yaml", strings.Replace(tableLimits, "requests_per_unit: 3", "requests_per_unit: 4", 1))
	s.eventually("another limit", func() bool { return s.ask("edge", "ip=2 | hits 0") == "OK, ok 4/4" })
	s.says("edge", "ip=1 | hits 0 -> OK, ok 3/4")
	s.write("limits.yaml", "domain: edge\ndescriptors: [{key: ip, rate_limit: {unit: x}}]")
	s.eventually("an alarm", func() bool { return len(s.Alarms()) == 1 && s.Alarms()[0].Code == "rls_config_bad" })
	s.says("edge", "ip=1 | hits 0 -> OK, ok 3/4")
	s.write("limits.yaml", "domain: other\ndescriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 9}}]")
	s.write("more.yaml", tableLimits)
	s.eventually("a second file", func() bool { return s.ask("other", "ip=2") != "OK, ok" && len(s.Alarms()) == 0 })
	s.says("edge", "ip=1 | hits 0 -> OK, ok 2/3")
	if got := s.live.loads.Load(); got != 3 {
		t.Errorf("%d loads", got)
	}
}

func TestWrongLimitsAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newTestServer(t, options{limits: tableLimits})
	for path, want := range map[string]string{dir: "--rls-config: " + dir + ": it has no file", dir + "/no": "--rls-config: stat", "limits_test.go": "the limits of --rls-config are wrong:\n"} {
		if path == "limits_test.go" {
			s.write("limits.yaml", "domain: 1\ndomains: 2")
			path = s.dir
		}
		if _, err := New(s.service, Config{Limits: path}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, cfg := range []Config{{Settings: listener.Settings{Addr: "x"}}, {Headers: "x"}, {Algorithm: 9}, {Settings: listener.Settings{MaxConns: -1}}, {Settings: listener.Settings{IdleTimeout: 1}}} {
		if _, err := New(s.service, cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}
