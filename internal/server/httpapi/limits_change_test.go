package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// support is a server with policies, for what support does to keys of limits.
func support(t *testing.T) *testAPI {
	t.Helper()
	return supportWith(t, options{})
}

func supportWith(t *testing.T, o options) *testAPI {
	t.Helper()
	e, live := policyEngine(t, engine.Config{Now: func() time.Time { return start }}, `limits:
  - {name: login, keys: "login:{user}:*", by: "login:{user}", limit: 5, per: 1h, overrides: [{key: "login:vip", limit: 50}]}
  - {name: a/keys/b, keys: "odd:*", limit: 5, per: 1h}
`)
	o.Backend.Policies = live
	return serveTestAPI(t, e, o)
}

// lines are what a log has, of several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wants checks a reply.
func (a *testAPI) wants(r reply, status int, parts ...string) {
	a.Helper()
	for _, part := range parts {
		if r.status != status || !strings.Contains(r.body, part) {
			a.Errorf("%d %s: want %d with %s", r.status, r.body, status, part)
		}
	}
}

func TestResetGrantRefund(t *testing.T) {
	a := support(t)
	take := func(key, n string) reply { return a.allow(`{"key":"` + key + `","n":` + n + `}`) }
	a.wants(take("login:bob:x", "5"), 200, `"allowed":true`)
	a.wants(take("login:bob:x", "1"), 429, `"allowed":false`)

	a.wants(a.do(http.MethodDelete, "/v1/limits/login/keys/login:bob", "", ""), 200, `"was":true`, `"remaining":5`, `"name":"login"`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/login/keys/login:bob", "", ""), 200, `"was":false`)
	a.wants(take("login:bob:x", "5"), 200, `"allowed":true`)

	// A name, and keys, with slashes, raw and encoded.
	a.wants(take("odd:/x//y", "5"), 200, `"remaining":0`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/a%2Fkeys%2Fb/keys/odd:/x//y", "", ""), 200, `"was":true`)
	a.wants(take("odd:/keys/z", "5"), 200, `"remaining":0`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/a%2Fkeys%2Fb/keys/odd:%2Fkeys%2Fz", "", ""), 200, `"was":true`, `"key":"odd:/keys/z"`)

	a.wants(a.do(http.MethodPost, "/v1/grants?limit=login&key=login:bob&n=3&for=1h", "", ""), 200, `"n":3`, `"remaining":3`, `"until":1769864400`)
	a.wants(take("login:bob:x", "2"), 200, `"remaining":1`)
	a.wants(a.do(http.MethodPost, "/v1/grants?limit=login&key=login:bob&n=0", "", ""), 200, `"n":0`, `"remaining":0`)
	a.wants(take("login:bob:x", "1"), 429, `"allowed":false`)
	a.wants(a.do(http.MethodPost, "/v1/grants?limit=login&key=login:vip&n=9&until=2026-02-01T00:00:00Z", "", ""), 200, `"remaining":59`)

	a.wants(a.do(http.MethodPost, "/v1/refund", "application/json", `{"key":"login:bob:x","n":2}`), 200, `"refunded":2`, `"remaining":2`, `"key":"login:bob"`)
	a.wants(a.do(http.MethodPost, "/v1/refund?taken=1769860800", "application/json", `{"checks":[{"key":"login:bob:x","n":9}]}`), 200, `"refunded":3`)
	a.wants(a.do(http.MethodPost, "/v1/refund?taken=1769850000", "application/json", `{"key":"login:bob:x"}`), 200, `"refunded":0`)
	a.wants(a.do(http.MethodPost, "/v1/refund", "application/json", `{"key":"nothing"}`), 200, `"limits":[]`)

	inline := `{"key":"k","n":5,"limit":{"n":5,"per":"1m"}}`
	a.wants(a.allow(inline), 200, `"allowed":true`)
	a.wants(a.do(http.MethodPost, "/v1/refund", "application/json", inline), 200, `"refunded":5`)
	a.wants(a.allow(inline), 200, `"allowed":true`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/inline/window/1m/keys/k", "", ""), 200, `"was":true`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/inline/gcra/7s/keys/k", "", ""), 200, `"was":false`)

	for _, bad := range []struct{ method, path, body, code string }{
		{"DELETE", "/v1/limits/nobody/keys/k", "", "unknown_limit"},
		{"DELETE", "/v1/limits/login/keys/" + strings.Repeat("k", 513), "", "invalid_key"},
		{"POST", "/v1/grants?limit=nobody&key=k&n=1&for=1h", "", "unknown_limit"},
		{"POST", "/v1/grants?limit=login&key=k&n=1", "", "invalid_parameter"},
		{"POST", "/v1/grants?limit=login&key=k&n=1&for=1h&until=1769864400", "", "invalid_parameter"},
		{"POST", "/v1/grants?limit=login&key=k&n=1&for=x", "", "invalid_window"},
		{"POST", "/v1/grants?limit=login&key=login:k&n=1&until=1769860800", "", "invalid_time"},
		{"POST", "/v1/grants?limit=login&key=k&n=35184372088833&for=1h", "", "invalid_parameter"},
		{"POST", "/v1/refund?x=1", `{"key":"k"}`, "unknown_parameter"},
		{"POST", "/v1/refund?taken=x", `{"key":"k"}`, "invalid_time"},
		{"POST", "/v1/refund", `{"key":"k","limit":"nobody"}`, "unknown_limit"},
		{"POST", "/v1/refund", ``, "empty_body"},
	} {
		if r := a.do(bad.method, bad.path, "application/json", bad.body); !strings.Contains(r.body, `"code":"`+bad.code+`"`) {
			t.Errorf("%s %s: %d %s, want %s", bad.method, bad.path, r.status, r.body, bad.code)
		}
	}
}

// settle settles a reservation, by its id, used and over as a query has them.
func (a *testAPI) settle(query string) reply {
	a.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		a.Fatal(err)
	}
	body := fmt.Sprintf(`{"id":%q,"used":%s}`, q.Get("id"), q.Get("used"))
	if q.Has("over") {
		body = fmt.Sprintf(`{"id":%q,"used":%s,"over":%q}`, q.Get("id"), q.Get("used"), q.Get("over"))
	}
	return a.do(http.MethodPost, "/v1/settle", "application/json", body)
}

// A key that is banned is denied until the ban is over or lifted; the answer, the list and the audit log say so.
func TestBan(t *testing.T) {
	var audit lines
	a := supportWith(t, options{Service: service.Config{Audit: slog.New(slog.NewTextHandler(&audit, nil))}})
	ban := func(method, query string) reply { return a.do(method, "/v1/bans"+query, "", "") }
	a.wants(a.allow(`{"key":"login:bob:x"}`), 200, `"allowed":true`)
	a.wants(ban("POST", "?limit=login&key=login:bob&for=2h"), 200, `"name":"login","key":"login:bob","until":`)
	r := a.allow(`{"key":"login:bob:x"}`)
	a.wants(r, 429, `"banned":true`, `"retry_after_s":7200`, `"remaining":0`)
	if r.header.Get("Retry-After") != "7200" {
		t.Errorf("%v", r.header)
	}
	var denied api.AllowAnswer
	if err := json.Unmarshal([]byte(r.body), &denied); err != nil {
		t.Fatal(err)
	}
	why := a.do("GET", "/v1/denials/"+denied.Denial, "", "")
	a.wants(why, 200, `"banned":true`)
	a.wants(a.do("GET", "/v1/limits/login/keys", "", ""), 200, `"key":"login:bob"`, `"used":1`, `"reset_s":7200`, `"banned_s":7200`)
	a.wants(a.do("GET", "/v1/limits/who", "", ""), 200, `"login:bob"`)
	a.wants(ban("GET", ""), 200, `{"bans":[{"name":"login","key":"login:bob","until":`)
	a.wants(ban("DELETE", "?limit=login&key=login:bob"), 200, `"was":true`)
	a.wants(ban("DELETE", "?limit=login&key=login:bob"), 200, `"was":false`)
	a.wants(a.allow(`{"key":"login:bob:x"}`), 200, `"allowed":true`)
	a.wants(ban("POST", "?limit=nobody&key=k&for=1h"), 404, `"code":"unknown_limit"`)
	a.wants(ban("POST", "?limit=login&key=login:bob:x&for=1h"), 400, `"code":"invalid_key"`)
	a.wants(ban("POST", "?limit=login&key=login:bob&for=500d"), 400, `"code":"invalid_`)
	a.wants(ban("GET", ""), 200, `{"bans":[]}`)
	for _, line := range []string{`action=ban target="login:bob of login for 2h" outcome=done`, `action=unban target="login:bob of login" outcome=done`, "outcome=unknown_limit"} {
		if !strings.Contains(audit.String(), line) {
			t.Errorf("not in the audit log: %s", line)
		}
	}
}

// A refund under an Idempotency-Key may be sent again: it gives back once, and each is in the audit log.
func TestRefundAgain(t *testing.T) {
	var audit lines
	a := supportWith(t, options{Service: service.Config{Audit: slog.New(slog.NewTextHandler(&audit, nil))}})
	a.wants(a.allow(`{"checks":[{"key":"login:bob:x","n":5},{"key":"k","n":5,"limit":{"n":5,"per":"1m"}}]}`), 200, `"allowed":true`)
	refund := func(key, query, body string) reply {
		return a.do(http.MethodPost, "/v1/refund"+query, "application/json", body, "Idempotency-Key", key)
	}
	both := `{"checks":[{"key":"login:bob:x","n":2},{"key":"k","n":1,"limit":{"n":5,"per":"1m"}}]}`
	first := refund("one", "", both)
	a.wants(first, 200, `"refunded":2,"remaining":2`, `"refunded":1,"remaining":1`)
	a.wants(a.allow(`{"key":"login:bob:x"}`), 200, `"remaining":1`)
	if again := refund(`"one"`, "", both); again.status != 200 || again.body != first.body {
		t.Errorf("%d %s, first it was %s", again.status, again.body, first.body)
	}
	a.wants(a.allow(`{"key":"login:bob:x"}`), 200, `"remaining":0`)
	a.wants(refund("one", "", `{"key":"login:bob:x","n":2}`), 422, `"code":"key_reused"`)
	a.wants(refund("one", "?taken=1769860800", both), 422, `"code":"key_reused"`)
	a.wants(refund("a b", "", both), 400, `"code":"invalid_idempotency_key"`)
	a.wants(refund("two", "", both), 200, `"refunded":2,"remaining":2`)
	if log := audit.String(); !strings.Contains(log, `action=refund target="2 of login:bob:x, and 1 more" outcome=done`) || !strings.Contains(log, `outcome=key_reused`) {
		t.Errorf("not in the audit log: %s", log)
	}
}

// A grant that no request could use is an error that says how the limit counts its keys.
func TestGrantOfAKeyThatIsNeverCounted(t *testing.T) {
	a := support(t)
	for _, key := range []string{"login:bob:10.0.0.1", "bob"} {
		r := a.do(http.MethodPost, "/v1/grants?limit=login&n=5&for=1h&key="+key, "", "")
		a.wants(r, 400, `"code":"invalid_key"`, key, "login:{user}")
	}
	a.wants(a.do(http.MethodPost, "/v1/grants?limit=login&n=0&key=bob", "", ""), 200)
}

// One reservation takes from every policy that counts one of its costs, all or none, and each is settled by its own.
func TestReserveCosts(t *testing.T) {
	engine, live := policyEngine(t, engine.Config{Now: func() time.Time { return start }}, `limits:
- {name: org, keys: "team:*", by: all, limit: 10, per: 1h}
- {name: tokens, keys: "team:*", limit: 2000, per: 1h, cost: tokens}
- {name: spend, keys: "team:*", limit: 5000, per: 1h, cost: microusd}
`)
	var o options
	o.Backend.Policies = live
	a := serveTestAPI(t, engine, o)
	reserve := func(id, costs string) reply {
		return a.do(http.MethodPost, "/v1/reserve?id="+id, "application/json", `{"key":"team:7","costs":`+costs+`}`)
	}
	settle := func(body string) reply { return a.do(http.MethodPost, "/v1/settle", "application/json", body) }
	const asked = `{"requests":1,"tokens":1200,"microusd":3600}`
	a.wants(reserve("a", asked), 200, `"name":"org","key":"all","mode":"enforce","allowed":true,"n":1`, `"remaining":9`, `"remaining":800`, `"remaining":1400`)
	a.wants(reserve("a", asked), 200, `"known":true`)
	a.wants(reserve("a", `{"requests":1,"tokens":1201,"microusd":3600}`), 422, `"code":"key_reused"`)
	a.wants(reserve("b", asked), 429, `"allowed":false`)
	a.wants(reserve("c", `{"requests":2,"tokens":800,"microusd":0}`), 200, `"name":"org","key":"all","mode":"enforce","allowed":true,"n":2`, `"remaining":7`) // b took nothing
	a.wants(reserve("d", `{"tokens":1}`), 400, `"code":"invalid_count"`, "spend counts microusd")

	a.wants(a.get("/v1/limits/tokens/keys"), 200, `"key":"team:7","used":2000`, `"reserved":{"reservations":2,"n":2000}`)
	a.wants(a.get("/v1/limits"), 200, `"reserved":{"reservations":2,"n":3}`, `"reserved":{"reservations":2,"n":2000}`)

	a.wants(settle(`{"id":"a","used":{"tokens":200}}`), 400, `"code":"invalid_count"`, "spend counts microusd")
	a.wants(settle(`{"id":"a","used":{"tokens":200,"requests":1,"microusd":410}}`), 200,
		`"name":"org","key":"all","reserved":1,"used":1,"refunded":0`, `"name":"tokens","key":"team:7","reserved":1200,"used":200,"refunded":1000`, `"name":"spend","key":"team:7","reserved":3600,"used":410,"refunded":3190`)
	a.wants(settle(`{"id":"a","used":{"tokens":200,"requests":1,"microusd":410}}`), 200, `"again":true`, `"used":200`)
	a.wants(settle(`{"id":"a","used":{"tokens":1,"requests":1,"microusd":410}}`), 422, `"code":"key_reused"`)
	a.wants(settle(`{"id":"c","used":{"tokens":1801,"microusd":0},"over":"debt"}`), 200, `"used":1801`, `"reserved":2,"used":2`, `"remaining":0`)
	if r := a.get("/v1/limits/tokens/keys"); strings.Contains(r.body, `"reserved"`) {
		t.Errorf("all are settled: %s", r.body)
	}
	a.wants(settle(`{"id":"nobody","used":3}`), 404, `"code":"unknown_reservation"`)
	for _, bad := range []string{`{"id":"a"}`, `{"used":1}`, `{"id":"a","used":-1}`, `{"id":"a","used":{}}`, `{"id":"a","used":"x"}`, `{"id":"a","used":1,"more":1}`, `{"id":"a","used":1,"over":"x"}`, `{`} {
		if r := settle(bad); r.status != 400 && r.status != 422 {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
	a.wants(a.do(http.MethodPost, "/v1/settle?id=a&used=1", "", ""), 400, `"code":"unknown_parameter"`, "all that is asked stands in the body")
	a.wants(a.do(http.MethodPost, "/v1/settle", "text/plain", `{"id":"a","used":1}`), 415, `"code":"unsupported_type"`, "send application/json")
	a.wants(settle(`{"id":"a","used":"x"}`), 400, "body.used: write a whole number")
	a.wants(a.do(http.MethodGet, "/v1/bans?m=1", "", ""), 400, `"code":"unknown_parameter"`, "m: unknown query parameter: there are n")
	a.wants(a.do(http.MethodGet, "/v1/policies?m=1", "", ""), 400, `"code":"unknown_parameter"`, "there are none")
}

// Settling, and a permit, have a place among the decisions, as reserving has: they go on while there are too many questions.
func TestSettleIsNoQuestion(t *testing.T) {
	a := support(t)
	a.wants(a.do(http.MethodPost, "/v1/reserve?id=x", "application/json", `{"key":"login:bob:x","n":4}`), 200, `"id":"x"`)
	questions := a.server.service.Pools.Questions
	for i := int64(0); i < questions.Stats().Bound; i++ {
		if err := questions.Enter(access.CallerAt(fmt.Sprintf("192.0.2.%d:1", i%8)), 1); err != nil {
			t.Fatal(err)
		}
	}
	a.wantProblem(a.get("/v1/count?key=a"), api.CodeOverloaded, http.StatusServiceUnavailable)
	a.wants(a.settle("id=x&used=1"), 200, `"refunded":3`)
	a.wants(a.do(http.MethodPost, "/v1/permits?key=nobody", "", ""), 200, `"unmatched":true`)
}

func TestReserveSettle(t *testing.T) {
	a := support(t)
	reserve := func(query, body string) reply {
		return a.do(http.MethodPost, "/v1/reserve?"+query, "application/json", body)
	}
	r := reserve("", `{"key":"login:bob:x","n":4}`)
	var made api.ReserveAnswer
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || len(made.ID) != 26 || !made.Allowed || made.Limits[0].Remaining != 1 {
		t.Fatalf("%v: %d %s", err, r.status, r.body)
	}
	a.wants(a.settle("id="+made.ID+"&used=1"), 200, `"reserved":4,"used":1,"refunded":3,"remaining":4`)
	a.wants(a.settle("id="+made.ID+"&used=1"), 200, `"again":true`, `"used":1,"refunded":0`)
	a.wants(a.settle("id="+made.ID+"&used=4"), 422, `"code":"key_reused"`, "settled with 1 used of limit login, and now it is 4")

	a.wants(reserve("id=x&ttl=30s", `{"key":"login:bob:x","n":4}`), 200, `{"id":"x","allowed":true`, `"remaining":0`)
	for query, body := range map[string]string{
		"id=x": `{"key":"login:bob:x","n":4}`, "id=x&ttl=30s&unsettled=returned": `{"key":"login:bob:x","n":4}`, "ttl=30s&id=x": `{"key":"login:bob:x","n":3}`,
		"id=x&ttl=30000ms": `{"key":"login:bob:y","n":4}`, "ttl=30&id=x": `{"key":"login:bob:x","n":4,"limit":"login"}`,
	} {
		a.wants(reserve(query, body), 422, `"code":"key_reused"`)
	}
	a.wants(reserve("id=x&ttl=30s", `{"n":4,"key":"login:bob:x"}`), 200, `{"id":"x","known":true,"allowed":true,"limits":[]}`)
	a.wants(reserve("id=y", `{"key":"login:bob:x"}`), 429, `{"allowed":false,"retry_after_s":3600`)
	a.wants(a.settle("id=x&used=6"), 200, `"over":2,"limits":[{"name":"login","key":"login:bob","reserved":4,"used":4,"refunded":0,"over":2,"remaining":0}]`)
	a.wants(reserve("id=v", `{"key":"login:vip:x","n":4,"limit":"login"}`), 200, `"remaining":46`)
	a.wants(a.settle("id=v&used=60&over=debt"), 200, `"used":60`, `"remaining":0`)
	a.wants(reserve("", `{"key":"nobody"}`), 200, `{"allowed":true,"unmatched":true`)

	inline := `{"checks":[{"key":"k","n":5,"limit":{"n":5,"per":"1m"}},{"key":"login:eve:x","n":2}]}`
	a.wants(reserve("id=two", inline), 200, `"remaining":0`, `"remaining":3`)
	a.wants(a.settle("id=two&used=1"), 200, `"refunded":4`, `"refunded":1`)
	a.wants(a.do(http.MethodDelete, "/v1/limits/login/keys/login:eve", "", ""), 200, `"was":true`)

	for _, bad := range []struct{ path, body, code string }{
		{"/v1/reserve?ttl=25h", `{"key":"k"}`, "invalid_window"}, {"/v1/reserve?ttl=x", `{"key":"k"}`, "invalid_window"},
		{"/v1/reserve?unsettled=x", `{"key":"k"}`, "invalid_parameter"}, {"/v1/reserve?x=1", `{"key":"k"}`, "unknown_parameter"},
		{"/v1/reserve", `{"key":"k","peek":true}`, "invalid_parameter"}, {"/v1/reserve?id=" + strings.Repeat("i", 65), `{"key":"k"}`, "invalid_parameter"},
		{"/v1/reserve", `{"key":"login:bob:x","n":6}`, "invalid_count"}, {"/v1/reserve", ``, "empty_body"},
		{"/v1/settle", `{"id":"","used":1}`, "invalid_parameter"}, {"/v1/settle", "", "invalid_parameter"},
	} {
		if r := a.do(http.MethodPost, bad.path, "application/json", bad.body); !strings.Contains(r.body, `"code":"`+bad.code+`"`) {
			t.Errorf("%s: %d %s, want %s", bad.path, r.status, r.body, bad.code)
		}
	}
}
