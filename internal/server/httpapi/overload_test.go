package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// newSlowAPI is a server whose journal is behind after a few hits; catchUp does
// what a flush does.
func newSlowAPI(t *testing.T) (a *testAPI, catchUp func()) {
	a = newTestAPI(t, engine.Config{Gather: true, Partitions: 1, MaxWaiting: 2}, options{})
	return a, func() { a.engine.Cut(0, new(replication.Cut), false) }
}

// lateLines are n lines of hits that wait for the journal at once, each as one.
func lateLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a 1 %d\n", start.Unix()-int64(i))
	}
	return b.String()
}

func TestOverloaded(t *testing.T) {
	for name, headers := range map[string][]string{"streamed": nil, "with a key": {IdempotencyKey, "k"}} {
		t.Run(name, func(t *testing.T) {
			a, catchUp := newSlowAPI(t)
			post := func(lines string) (got api.HitsAnswer, r reply) {
				r = a.do(http.MethodPost, "/v1/hits", "text/plain", lines, headers...)
				if err := json.Unmarshal([]byte(r.body), &got); err != nil {
					t.Fatal(err)
				}
				return got, r
			}
			// The first line waits in its live cell, two beside it: then it is full.
			got, r := post(lateLines(7) + "b 0\n")
			if r.status != 200 || got.Counted != 3 || got.RetryFrom != 4 || got.RejectedLines != 5 || got.Rejected[0].Line != 4 || got.Rejected[4].Code != api.CodeOverloaded {
				t.Errorf("got %d %s", r.status, r.body)
			}
			a.wantCount("a", 3)
			if headers != nil {
				headers[1] = "k2"
			}
			got, r = post("x 0\na\n")
			a.wantProblem(r, api.CodeOverloaded, 503)
			if r.header.Get("Retry-After") != "1" || got.RetryFrom != 2 || got.RejectedLines != 2 {
				t.Errorf("Retry-After %q, %s", r.header.Get("Retry-After"), r.body)
			}
			if !strings.Contains(a.get("/metrics").body, "weir_overloaded_lines_total 6\n") {
				t.Error("weir_overloaded_lines_total is not 6")
			}
			catchUp()
			if got, r = post("x 0\na\n"); r.status != 200 || got.Counted != 1 || got.RetryFrom != 0 {
				t.Errorf("after a flush: %d %s", r.status, r.body)
			}
		})
	}
}
