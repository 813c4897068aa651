package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/query"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/policy"
)

// elsewhere answers for an engine of another node. fail is what it says instead.
type elsewhere struct {
	engine *engine.Engine
	fail   error
	asked  chan<- []api.CountQuestion
	upTo   uint64    // of the last question
	until  time.Time // of the last question about counts
}

var elsewhereFresh = api.Freshness{AsOf: api.Time{Time: time.Unix(1_700_000_000, 0)}, Late: []api.Late{{Node: "far", Since: api.Time{Time: time.Unix(1_600_000_000, 0)}}}}

func (e *elsewhere) Counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) (_ []engine.Count, _ api.Freshness, _ error) {
	e.upTo = upTo
	e.until, _ = ctx.Deadline()
	if e.asked != nil {
		e.asked <- questions
		<-ctx.Done()
		return nil, api.Freshness{}, context.Cause(ctx)
	}
	for _, q := range questions {
		c, err := e.engine.CountAt(q.At, q.Key, q.Window)
		if err != nil {
			return nil, api.Freshness{}, err
		}
		counts = append(counts, c)
	}
	return counts, elsewhereFresh, e.fail
}

func (e *elsewhere) Series(_ context.Context, upTo uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error) {
	e.upTo = upTo
	points, _ := e.engine.Series(key, from, to, step)
	return points, elsewhereFresh, e.fail
}

func (e *elsewhere) Top(_ context.Context, upTo uint64, at time.Time, w time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error) {
	e.upTo = upTo
	keys, _ := e.engine.Top(at, w, n, prefix)
	return keys, elsewhereFresh, e.fail
}

func (e *elsewhere) Keys(_ context.Context, upTo uint64, prefix, after string, limit int) ([]string, api.Freshness, error) {
	e.upTo = upTo
	keys, _ := e.engine.Keys(prefix, after, limit)
	return keys, elsewhereFresh, e.fail
}

func (e *elsewhere) Distinct(_ context.Context, _ uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	set, gone, _ := e.engine.Distinct(q.At, q.Key, q.Window)
	return set, gone, elsewhereFresh, e.fail
}

func (e *elsewhere) Delete(_ context.Context, key string) (bool, error) {
	if e.fail != nil {
		return false, e.fail
	}
	return e.engine.Delete(key)
}

// newElsewhereAPI is a server whose engine has nothing: another one has three hits
// of a.
func newElsewhereAPI(t *testing.T, cfg options) (*testAPI, *elsewhere) {
	far, err := engine.New(engine.Config{Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	if _, err := far.HitAt(start, "a", 3); err != nil {
		t.Fatal(err)
	}
	answers := &elsewhere{engine: far}
	cfg.Backend.Answers, cfg.Backend.Cluster = answers, fixedCluster{now: start}
	return newTestAPI(t, engine.Config{}, cfg), answers
}

// Every question about keys is answered by Answers, with the freshness of the answer
// and not of this node.
func TestAnswersOfOthers(t *testing.T) {
	a, _ := newElsewhereAPI(t, options{Backend: service.Backend{Figures: []func() any{func() any {
		return query.Stats{
			Asked: 1, Joined: 2, Repeated: 3, Requests: 4, Failed: 5, Unanswered: 6, Refused: 7, Served: 8, Dropped: 9, Asking: 10,
		}
	}}}})
	for path, want := range map[string]string{
		"/v1/count?key=a":          `"estimate":3,`,
		"/v1/count?key=a&key=b":    `"estimate":3,`,
		"/v1/rate?key=a&window=3s": `"per_second":{"lower":1,"estimate":1,"upper":null}`,
		"/v1/series?key=a&step=1h": `"estimate":3,`,
		"/v1/top":                  `{"key":"a",`,
		"/v1/keys":                 `["a"]`,
	} {
		r := a.get(path)
		if r.status != http.StatusOK || !strings.Contains(r.body, want) || !strings.Contains(r.body, `"as_of":1700000000,"late":[{"node":"far","since":1600000000}]`) {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
	if r := a.do(http.MethodDelete, "/v1/keys/a", "", ""); r.status != http.StatusNoContent {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.do(http.MethodDelete, "/v1/keys/a", "", ""); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.body)
	}
	metrics := a.get("/metrics").body
	for i, name := range []string{"asked_total", "joined_total", "repeated_total", "requests_total", "failed_requests_total", "unanswered_total", "refused_total", "served_total", "dropped_total", "asking"} {
		if want := "weir_route_" + name + " " + []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}[i] + "\n"; !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// Decisions are counted under keys like others. What keys used of limits every node knows.
func TestLimitsOfOthers(t *testing.T) {
	set, err := policy.Parse("p.yaml", []byte(`limits: [{name: l, keys: "*", limit: 9, per: 1m}]`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	live, err := admit.NewClusterLive(e, set, admit.Cluster{Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	a, answers := newElsewhereAPI(t, options{Backend: service.Backend{Policies: live}})
	if _, err := answers.engine.HitAt(start, admit.HitPrefix+"l:denied", 5); err != nil {
		t.Fatal(err)
	}
	if r := a.get("/v1/limits"); r.status != http.StatusOK || !strings.Contains(r.body, `"denied":{"lower":5,`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	var d admit.Decision
	if err := live.Take([]admit.Request{{Key: "k", N: 3}}, &d); err != nil {
		t.Fatal(err)
	}
	answers.fail = &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: "partition 5 is away"}
	if r := a.get("/v1/limits/l/keys"); r.status != http.StatusOK || !strings.Contains(r.body, `"keys":[{"key":"k","used":3,"burst":9,`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestNobodyHoldsTheKey(t *testing.T) {
	a, answers := newElsewhereAPI(t, options{})
	answers.fail = &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: "partition 5 is away"}
	for _, path := range []string{"/v1/count?key=a", "/v1/rate?key=a", "/v1/series?key=a", "/v1/top", "/v1/keys", "DELETE"} {
		method := http.MethodGet
		if path == "DELETE" {
			method, path = path, "/v1/keys/a"
		}
		r := a.do(method, path, "", "")
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "1" ||
			!strings.Contains(r.body, `"code":"not_held"`) || !strings.Contains(r.body, "partition 5 is away") {
			t.Errorf("%s %s: %d, Retry-After %q, %s", method, path, r.status, r.header.Get("Retry-After"), r.body)
		}
	}
}

// A client that goes away ends its question.
func TestQuestionsEndWithTheirRequest(t *testing.T) {
	a, answers := newElsewhereAPI(t, options{})
	asked := make(chan []api.CountQuestion)
	answers.asked = asked
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/count?key=a&key=b&window=1m&at=1769860800", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error)
	go func() {
		r, err := http.DefaultClient.Do(req)
		if err == nil {
			r.Body.Close()
		}
		gone <- err
	}()
	want := []api.CountQuestion{{Key: "a", At: start, Window: time.Minute}, {Key: "b", At: start, Window: time.Minute}}
	if got := <-asked; !slices.EqualFunc(got, want, func(a, b api.CountQuestion) bool {
		return a.Key == b.Key && a.At.Equal(b.At) && a.Window == b.Window
	}) {
		t.Errorf("asked %v, want %v", got, want)
	}
	cancel()
	if err := <-gone; err == nil {
		t.Error("the request had an answer")
	}
	for end := time.Now().Add(time.Minute); ; { // until the handler has ended
		if body := a.get("/metrics").body; strings.Contains(body, `route="GET /v1/count",status="4xx"} 1`) {
			break
		} else if strings.Contains(body, `status="5xx"} 1`) || time.Now().After(end) {
			t.Fatal("a client that went away is an error of ours")
		}
	}
}
