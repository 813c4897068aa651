package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/wire"
)

// permitID is the ID of a permit of somebody.
func permitID(limit, key string) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(wire.AppendText(wire.AppendText(nil, limit), key), 42))
}

// asking has a handler answer without a network, for tests within a bubble of time.
func asking(t *testing.T, h http.Handler, method, path string) reply {
	t.Helper()
	w := httptest.NewRecorder()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI, r.RemoteAddr = path, "127.0.0.1:1"
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, live := policyEngine(t, engine.Config{}, "limits:\n- {name: jobs, keys: \"job:{customer}:*\", by: \"job:{customer}\", max: 2, ttl: 10s}\n")
		s, err := newServer(e, options{Backend: service.Backend{Policies: live}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path string) reply { return asking(t, s.Handler(), method, path) }
		denied := func(r reply, wait, why string) {
			t.Helper()
			if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, `"code":"at_once"`) || r.header.Get("Retry-After") != wait || !strings.Contains(r.body, why) {
				t.Errorf("%d %s %v", r.status, r.body, r.header)
			}
		}
		denied(ask("POST", "/v1/permits?key=job:1:a"), "10", "just started")
		before := permitID("", "job:1:z")
		if r := ask("POST", "/v1/permits/"+before+"/heartbeat"); r.status != 200 { // of the process before
			t.Errorf("%d %s", r.status, r.body)
		}
		time.Sleep(9 * time.Second)
		ask("POST", "/v1/permits/"+before+"/heartbeat")
		time.Sleep(time.Second)
		first := answerOf[api.PermitAnswer](t, ask("POST", "/v1/permits?key=job:1:a"))
		if first.TTL() != 10*time.Second || first.Unmatched {
			t.Errorf("%+v", first)
		}
		denied(ask("POST", "/v1/permits?key=job:1:b&limit=jobs"), "9", "2 of 2 permits of key job:1 are held")
		if other := answerOf[api.PermitAnswer](t, ask("POST", "/v1/permits?key=job:2:b")); other.ID == "" {
			t.Error("of another customer")
		}
		if l := answerOf[api.LimitsAnswer](t, ask("GET", "/v1/limits")).AtOnce; len(l) != 1 || l[0].Held != 3 || l[0].HeldKeys != 2 || l[0].Max != 2 {
			t.Errorf("%+v", l)
		}
		if keys := answerOf[api.LimitKeysAnswer](t, ask("GET", "/v1/limits/jobs/keys")).Keys; len(keys) != 2 || keys[0] != (api.LimitKey{Key: "job:1", Used: 2, Burst: 2, Share: 1, ResetSeconds: 10}) || keys[1].Key != "job:2" || keys[1].Remaining != 1 {
			t.Errorf("%+v", keys)
		}
		time.Sleep(9*time.Second - time.Millisecond)
		denied(ask("POST", "/v1/permits?key=job:1:b"), "1", "2 of 2") // a ms before the silent one's ttl
		time.Sleep(time.Millisecond)
		second := answerOf[api.PermitAnswer](t, ask("POST", "/v1/permits?key=job:1:b"))
		if r := ask("POST", "/v1/permits/"+before+"/heartbeat"); r.status != http.StatusConflict || !strings.Contains(r.body, `"code":"permit_lost"`) {
			t.Errorf("%d %s", r.status, r.body)
		}
		for _, want := range []bool{true, false} {
			if got := answerOf[api.ReleaseAnswer](t, ask("DELETE", "/v1/permits/"+second.ID)); got.Released != want {
				t.Errorf("%+v", got)
			}
		}
		if free := answerOf[api.PermitAnswer](t, ask("POST", "/v1/permits?key=none")); !free.Unmatched || ask("POST", "/v1/permits/"+free.ID+"/heartbeat").status != 200 {
			t.Errorf("%+v", free)
		}
		for path, want := range map[string]string{
			"/v1/permits?key=job:1:a&limit=other": "unknown_limit", "/v1/permits?key=": "invalid_key", "/v1/permits": "invalid_parameter", "/v1/permits/abc/heartbeat": "invalid_parameter",
		} {
			if r := ask("POST", path); r.status < 400 || !strings.Contains(r.body, `"code":"`+want+`"`) && want != "invalid_parameter" {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if n, err := e.Count("limit:jobs:denied", time.Minute); err != nil || n.Estimate != 3 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}
