package httpapi

import (
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// A limit that is nearly used up says so, in the answer and in a header field.
func TestWarning(t *testing.T) {
	t.Parallel()
	e, live := policyEngine(t, engine.Config{}, "limits:\n- {name: login, keys: \"a*\", limit: 5, per: 1h, warn: 80%}\n- {name: other, keys: \"a\", limit: 5, per: 1h}\n")
	a := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live}})
	for n, want := range []string{"", "", "", "login", "login", ""} {
		r := a.allow(`{"key":"a"}`)
		if got := r.header.Get("Weir-Warning"); got != want || (want != "") != strings.Contains(r.body, `"allowed":true,"warning":true,`) || strings.Count(r.body, "warning") > 1 {
			t.Errorf("number %d: %q %s", n+1, got, r.body)
		}
	}
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `"warn":80`) {
		t.Error(r.body)
	}
}
