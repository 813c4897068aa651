package admit

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// A key that was over is denied for deny_for, whatever it has used since; others are not, nor are those of shadow policies.
func TestDenyFor(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC).UnixNano())
	e, err := engine.New(engine.Config{Partitions: 8, Now: func() time.Time { return time.Unix(0, now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := policy.Parse("p.yaml", []byte(`limits:
  - {name: login, keys: "login:{user}:*", by: "login:{user}", limit: 2, per: 1s, deny_for: 10m}
  - {name: all, keys: "login:*", by: "all", limit: 100, per: 1h}
  - {name: try, keys: "try:*", limit: 1, per: 1s, mode: shadow, deny_for: 1h}
`))
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	var d Decision
	take := func(key string, n uint64) *Decision {
		t.Helper()
		if err := live.Take([]Request{{Key: key, N: n}}, &d); err != nil {
			t.Fatal(err)
		}
		return &d
	}
	if !take("login:bob:x", 2).Allowed {
		t.Fatalf("%+v", d.Results)
	}
	if take("login:bob:x", 1).Allowed || d.RetryAfter != 10*time.Minute || d.Results[0].Banned {
		t.Errorf("over: again in %v, %+v", d.RetryAfter, d.Results)
	}
	now.Add(int64(10*time.Minute) - int64(time.Second))
	if take("login:bob:y", 1).Allowed || d.RetryAfter != time.Second || !d.Results[0].Banned || d.Denied != &d.Results[0] || d.Results[1].Remaining != 98 {
		t.Errorf("banned: again in %v, %+v", d.RetryAfter, d.Results)
	}
	if err := live.Peek([]Request{{Key: "login:bob:z", N: 1}}, &d); err != nil || d.Allowed {
		t.Errorf("a peek: %+v, %v", d.Results, err)
	}
	if !take("login:eve:x", 1).Allowed {
		t.Errorf("another: %+v", d.Results)
	}
	now.Add(int64(time.Second)) // what was denied meanwhile did not make it longer
	if !take("login:bob:y", 1).Allowed {
		t.Errorf("after it: %+v", d.Results)
	}
	for range 3 {
		if !take("try:a", 1).Allowed || len(live.engine.Limits().Bans(10)) != 0 {
			t.Errorf("a shadow policy: %+v, %+v", d.Results, live.engine.Limits().Bans(10))
		}
	}
	if err := live.Ban("login", "login:eve", time.Hour); err != nil {
		t.Fatal(err)
	}
	if take("login:eve:x", 1).Allowed || d.RetryAfter != time.Hour {
		t.Errorf("banned by hand: %+v", d.Results)
	}
	if was, err := live.Unban("login", "login:eve"); !was || err != nil || !take("login:eve:x", 1).Allowed {
		t.Errorf("%v, %v, %+v", was, err, d.Results)
	}
	for _, bad := range []struct {
		name, key string
		length    time.Duration
		want      api.Code
	}{
		{"nobody", "login:eve", time.Hour, api.CodeInvalidLimit}, {"try", "try:a", time.Hour, api.CodeInvalidLimit},
		{"login", "login:eve:x", time.Hour, api.CodeInvalidKey}, {"login", "login:eve", 0, api.CodeInvalidTime}, {"login", "login:eve", 367 * 24 * time.Hour, api.CodeInvalidTime},
	} {
		err := live.Ban(bad.name, bad.key, bad.length)
		if refused, ok := errors.AsType[*engine.Error](err); !ok || refused.Code != bad.want {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for text, want := range map[string]string{"deny_for: x": "deny_for", "deny_for: 1ms": "1s to 366d", "deny_for: 400d": "1s to 366d"} {
		_, err := policy.Parse("p.yaml", []byte("limits:\n  - {name: a, keys: a, limit: 1, per: 1s, "+text+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
