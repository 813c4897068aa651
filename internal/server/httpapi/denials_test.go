package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/policy"
)

var denialField = regexp.MustCompile(`"denial":"([0-9a-z]{13})",`)

// withoutDenial is an answer without the ID of a denial, which is another one each time.
func withoutDenial(body string) string { return denialField.ReplaceAllString(body, "") }

// denialOf is the ID of an answer that is a denial.
func denialOf(t *testing.T, r reply) string {
	t.Helper()
	found := denialField.FindStringSubmatch(r.body)
	if r.status != http.StatusTooManyRequests || found == nil || r.header.Get("Weir-Denial") != found[1] {
		t.Fatalf("no denial with an ID: %d %s %v", r.status, r.body, r.header)
	}
	return found[1]
}

func answerOf[T any](t *testing.T, r reply) (answer T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return answer
}

func TestWhy(t *testing.T) {
	t.Parallel()
	now := start
	e, live := policyEngine(t, engine.Config{Now: func() time.Time { return now }}, "limits:\n  - {name: login, keys: \"login:{user}:*\", by: \"login:{user}\", limit: 2, per: 1m}\n")
	a := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live}})
	for _, at := range []time.Duration{0, 10 * time.Second} {
		now = start.Add(at)
		if r := a.allow(`{"key":"login:bob:10.0.0.1"}`); r.status != 200 || r.header.Get("Weir-Denial") != "" || strings.Contains(r.body, "denial") {
			t.Fatalf("%d %s %v", r.status, r.body, r.header)
		}
	}
	now = start.Add(15 * time.Second)
	id := denialOf(t, a.allow(`{"key":"login:bob:10.0.0.2","n":2}`))
	now = start.Add(time.Hour) // what filled the limit then is kept as it was
	why := answerOf[api.DenialAnswer](t, a.get("/v1/denials/"+strings.ToUpper(id)))
	if len(why.Limits) != 1 || why.At.Sub(start) != 15*time.Second || why.Freshness.AsOf.Sub(start) != 15*time.Second {
		t.Fatalf("%+v", why)
	}
	l := why.Limits[0]
	if l.Name != "login" || l.Asked != "login:bob:10.0.0.2" || l.Key != "login:bob" || l.Keys != "login:{user}:*" || l.By != "login:{user}" || l.Line != 2 ||
		l.Changed || l.Inline || l.Where != "leased" || l.N != 2 || l.Used != 2 || l.Burst != 2 || l.Doubt != 0 ||
		l.RetryAt.Sub(start) != 70*time.Second || l.ResetAt.Sub(start) != 70*time.Second {
		t.Errorf("%+v", l)
	}
	if len(l.Admissions) != 2 || l.Admissions[0].At.Sub(start) != 0 || l.Admissions[1].At.Sub(start) != 10*time.Second || l.Admissions[1].N != 1 {
		t.Errorf("%+v", l.Admissions)
	}
	changed, err := policy.Parse("policies", []byte("limits:\n  - {name: login, keys: \"login:{user}:*\", by: \"login:{user}\", limit: 3, per: 1m}\n"))
	if err == nil {
		err = live.Replace(changed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if l := answerOf[api.DenialAnswer](t, a.get("/v1/denials/"+id)).Limits[0]; !l.Changed || l.Limit != 2 {
		t.Errorf("after a change: %+v", l)
	}
	asked := a.do(http.MethodGet, "/v1/forward-auth?key=login:(client):x&limit=login&n=3&denied=403", "", "", ForwardedMark, "/", "X-Forwarded-For", "1.1.1.1")
	if asked.status != 200 {
		t.Fatalf("%d %s", asked.status, asked.body)
	}
	asked = a.do(http.MethodGet, "/v1/forward-auth?key=login:(client):x&limit=login&denied=403", "", "", ForwardedMark, "/", "X-Forwarded-For", "1.1.1.1")
	if asked.status != 403 || answerOf[api.DenialAnswer](t, a.get("/v1/denials/"+asked.header.Get("Weir-Denial"))).Limits[0].Key != "login:1.1.1.1" {
		t.Errorf("%d %v", asked.status, asked.header)
	}
}

// An ID that newer denials pushed out is distinguished from one that never was, and one key pushes out its own.
func TestDenialsThatAreGone(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, engine.Config{}, options{})
	deny := func(key string) string {
		body := `{"key":"` + key + `","limit":{"n":1,"per":"1m"}}`
		a.allow(body)
		return denialOf(t, a.allow(body))
	}
	others := make([]string, 20)
	for i := range others {
		others[i] = deny(fmt.Sprint("other", i))
	}
	first := deny("a")
	a.allow(`{"key":"a","limit":{"n":2,"per":"1m"}}`)
	for i := range activity.PerSet { // each for another number than the one before
		denialOf(t, a.allow(fmt.Sprintf(`{"key":"a","n":%d,"limit":{"n":2,"per":"1m"}}`, 2-i%2)))
	}
	gone := a.get("/v1/denials/" + first)
	a.wantProblem(gone, api.CodeDenialGone, http.StatusGone)
	if !strings.Contains(gone.body, "keeps the newest 8192") {
		t.Error(gone.body)
	}
	kept := 0
	for _, id := range others {
		if a.get("/v1/denials/"+id).status == 200 {
			kept++
		}
	}
	if kept < 15 { // a part of 128 is the key's own
		t.Errorf("one key pushed out %d of 20 others", 20-kept)
	}
	for _, id := range []string{"0123456789abc", "zzzzzzzzzzzzz", "1", "a%20b", "uuuuuuuuuuuuu"} {
		a.wantProblem(a.get("/v1/denials/"+id), api.CodeUnknownDenial, http.StatusNotFound)
	}
	a.wantProblem(a.get("/v1/denials/n1-"+first), api.CodeUnknownDenial, http.StatusNotFound)
	peeked := a.allow(`{"key":"a","limit":{"n":1,"per":"1m"},"peek":true}`)
	if peeked.status != 429 || strings.Contains(peeked.body, "denial") {
		t.Errorf("a peek counts nothing and is not kept: %d %s", peeked.status, peeked.body)
	}
}

// In a cluster an ID names the node that keeps it, and other nodes say so.
func TestDenialsOfNodes(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Node: "n-1"}})
	a.allow(`{"key":"a","limit":{"n":1,"per":"1m"}}`)
	id := a.allow(`{"key":"a","limit":{"n":1,"per":"1m"}}`).header.Get("Weir-Denial")
	if why := answerOf[api.DenialAnswer](t, a.get("/v1/denials/"+id)); why.Node != "n-1" || !why.Limits[0].Inline || !strings.HasPrefix(id, "n-1-") {
		t.Errorf("%s: %+v", id, why)
	}
	other := a.get("/v1/denials/n-2" + strings.TrimPrefix(id, "n-1"))
	a.wantProblem(other, api.CodeOtherNode, http.StatusMisdirectedRequest)
	if !strings.Contains(other.body, "is on node n-2") {
		t.Error(other.body)
	}
	a.wantProblem(a.get("/v1/denials/0123456789abc"), api.CodeUnknownDenial, http.StatusNotFound)
}

// Nobody learns from an ID or a list what he may not read: a foreign denial is answered as one that never was.
func TestForeignDenials(t *testing.T) {
	t.Parallel()
	a := newLockedAPI(t, map[string]string{
		"shop": `permissions: [{role: read, keys: ["in:"], limits: [own]}]`,
		"ask":  `permissions: [{role: decide}]`,
		"root": `permissions: [{role: read}]`,
	}, options{})
	deny := func(body string) string {
		a.as("ask", http.MethodPost, "/v1/allow", body)
		return denialOf(t, a.as("ask", http.MethodPost, "/v1/allow", body))
	}
	own := deny(`{"key":"in:login:a","n":1000}`)
	foreign := deny(`{"key":"out:a","n":1000}`)
	both := deny(`{"checks":[{"key":"in:login:a","n":1000},{"key":"out:a","n":1000}]}`)
	inline := deny(`{"key":"in:x","limit":{"n":1,"per":"1m"}}`)
	never := "0123456789abc"
	if r := a.as("shop", http.MethodGet, "/v1/denials/"+own, ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	want := a.as("shop", http.MethodGet, "/v1/denials/"+never, "").body
	for _, id := range []string{foreign, both, inline} {
		r := a.as("shop", http.MethodGet, "/v1/denials/"+id, "")
		if r.status != 404 || strings.ReplaceAll(r.body, id, never) != want {
			t.Errorf("%d %s, want %s", r.status, r.body, want)
		}
		if r := a.as("root", http.MethodGet, "/v1/denials/"+id, ""); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
		a.wantProblem(a.as("ask", http.MethodGet, "/v1/denials/"+id, ""), api.CodeForbidden, 403)
	}
	who := func(name, query string) (list string) {
		for _, k := range answerOf[api.WhoAnswer](t, a.as(name, http.MethodGet, "/v1/limits/who"+query, "")).Keys {
			list += fmt.Sprintf("%s %s %d,", k.Limit, k.Key, k.Denied)
		}
		return list
	}
	for query, want := range map[string]string{
		"":                          "own in:login:a 3,theirs out:a 3,inline/window/1m in:x 1,",
		"?prefix=in:":               "own in:login:a 3,inline/window/1m in:x 1,",
		"?limit=theirs":             "theirs out:a 3,",
		"?n=1&prefix=out":           "theirs out:a 3,",
		"?limit=inline%2Fwindow/1m": "inline/window/1m in:x 1,",
	} {
		got := who("root", query)
		if strings.Count(got, ",") != strings.Count(want, ",") {
			t.Errorf("who %s: %s, want %s", query, got, want)
		}
		for one := range strings.SplitSeq(want, ",") {
			if !strings.Contains(got, one) {
				t.Errorf("who %s: %s, want %s", query, got, want)
			}
		}
	}
	if got := who("shop", ""); got != "own in:login:a 3," {
		t.Errorf("who for some keys: %s", got)
	}
	a.wantProblem(a.as("shop", http.MethodGet, "/v1/limits/who?prefix=out:", ""), api.CodeForbidden, 403)
	a.wantProblem(a.as("root", http.MethodGet, "/v1/limits/who?window=6m", ""), api.CodeInvalidWindow, 400)
	a.wantProblem(a.as("root", http.MethodGet, "/v1/limits/who?window=x", ""), api.CodeInvalidWindow, 400)
}
