package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, on machines without them

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// A quota by the calendar says when its edge is: in the answer, the header fields, and why it denied.
func TestCalendarAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 27, 22, 30, 0, 0, time.UTC)
	e, live := policyEngine(t, engine.Config{Now: func() time.Time { return now }}, "limits:\n- {name: plan, keys: \"api:*\", limit: 2, per: month, anchor: 30, tz: Europe/Berlin}\n")
	a := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live}})
	for range 2 {
		r := a.allow(`{"key":"api:1"}`)
		if r.status != http.StatusOK || !strings.Contains(r.body, `"calendar":"month from day 30, Europe/Berlin"`) || !strings.Contains(r.body, `"reset_s":1800}`) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	r := a.allow(`{"key":"api:1"}`)
	id := denialOf(t, r)
	if r.header.Get("Retry-After") != "1800" || r.header.Get("RateLimit") != `"plan";r=0;t=1800` || r.header.Get("RateLimit-Policy") != `"plan";q=2;w=2678400` {
		t.Errorf("%v", r.header)
	}
	l := answerOf[api.DenialAnswer](t, a.get("/v1/denials/"+id)).Limits[0]
	if l.Calendar != "month from day 30, Europe/Berlin" || !l.RetryAt.Equal(time.Date(2026, 2, 27, 23, 0, 0, 0, time.UTC)) || l.Where != "strict" && l.Where != "shared" {
		t.Errorf("%+v", l)
	}
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `"calendar":"month from day 30, Europe/Berlin"`) {
		t.Error(r.body)
	}
	now = now.Add(30 * time.Minute) // the last of February in Berlin, which has no 30th
	if r := a.allow(`{"key":"api:1","n":2}`); r.status != http.StatusOK || !strings.Contains(r.body, `"remaining":0`) {
		t.Errorf("after the edge: %d %s", r.status, r.body)
	}
}
