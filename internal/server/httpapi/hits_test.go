package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

func TestHits(t *testing.T) {
	const text, ndjson, jsonType = "text/plain", "application/x-ndjson", "application/json"
	now := start.Unix()
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		code                    api.Code // of the problem, when status is one
		counted, late, tooLate  uint64
		rejected                string // line:code, apart by spaces
		keys                    string // key=count in the last day, apart by spaces
	}{
		{name: "one line", contentType: text, body: "url:/home", status: 200, counted: 1, keys: "url:/home=1 *=1"},
		{name: "lines", contentType: text, body: fmt.Sprintf("a\nb 3\r\n\n  a\t2\t%d \n", now), status: 200, counted: 6, keys: "a=3 b=3 *=6"},
		{name: "charset", contentType: "text/plain; charset=UTF-8", body: "é 2", status: 200, counted: 2, keys: "%C3%A9=2"},
		{name: "rfc 3339", contentType: text, body: "a 1 2026-01-31T12:00:00Z\na 1 2026-01-31T13:59:59.5+02:00", status: 200, counted: 2, late: 1, keys: "a=2"},
		{name: "fraction", contentType: text, body: fmt.Sprintf("a 1 %d.75", now), status: 200, counted: 1, keys: "a=1"},
		{name: "late", contentType: text, body: fmt.Sprintf("a 1 %d\na 5 %d", now, now-60), status: 200, counted: 6, late: 5, keys: "a=6"},
		{name: "too late beside", contentType: text, body: "a\nb 7 1000000000", status: 200, counted: 1, tooLate: 7, keys: "a=1 b=0 *=1"},
		{name: "all too late", contentType: text, body: "b 7 1000000000", status: 422, code: "too_late", tooLate: 7, keys: "b=0 *=0"},
		{name: "bad among good", contentType: text,
			body:   fmt.Sprintf("a\nb 0\nb -1\nb 1.5\nb x\nb 18446744073709551616\nb 1 x\nb 1 %d\n* 1\nb\x01\nb 1 2 3\n\xff\n%s\nc", now+6, strings.Repeat("k", 513)),
			status: 200, counted: 2,
			rejected: "2:invalid_count 3:invalid_count 4:invalid_count 5:invalid_count 6:invalid_count 7:invalid_time 8:too_far_ahead " +
				"9:reserved_key 10:invalid_key 11:invalid_line 12:invalid_key 13:invalid_key",
			keys: "a=1 b=0 c=1 *=2"},
		{name: "milliseconds", contentType: text, body: fmt.Sprintf("a 1 %d000", now), status: 400, code: "nothing_counted", rejected: "1:invalid_time"},
		{name: "largest n", contentType: text, body: "a 1099511627776\na 1099511627777", status: 200, counted: 1 << 40, rejected: "2:invalid_count"},
		{name: "all bad", contentType: text, body: "a 0\nb 0", status: 400, code: "nothing_counted", rejected: "1:invalid_count 2:invalid_count"},
		{name: "empty", contentType: text, body: "", status: 400, code: "empty_body"},
		{name: "blank lines", contentType: text, body: "\n \r\n", status: 400, code: "empty_body"},
		{name: "longest key", contentType: text, body: strings.Repeat("k", 512), status: 200, counted: 1, keys: strings.Repeat("k", 512) + "=1"},
		{name: "long line", contentType: text, body: "a\n" + strings.Repeat("x", 200_000) + "\nb", status: 200, counted: 2, rejected: "2:line_too_long", keys: "a=1 b=1"},
		{name: "long last line", contentType: text, body: "a\n" + strings.Repeat(" ", 9000), status: 200, counted: 1, rejected: "2:line_too_long"},

		{name: "ndjson", contentType: ndjson, body: "{\"key\":\"a\"}\n\n{\"n\":3, \"key\":\"b c\"}\r\n{\"key\":\"a\",\"at\":\"2026-01-31T12:00:00Z\",\"n\":null}\n",
			status: 200, counted: 5, keys: "a=2 b%20c=3"},
		{name: "ndjson escapes", contentType: ndjson, body: `{"key":"\u00e9\n\"\\\/\ud83d\ude00"}`, status: 200, counted: 1, keys: "%C3%A9%0A%22%5C/%F0%9F%98%80=1"},
		{name: "ndjson bad among good", contentType: ndjson, status: 200, counted: 2,
			body: `{"key":"a"}
{"key":"a"
nonsense
["a"]
{"key":1}
{}
{"key":"a","count":2}
{"key":"a","n":1.0}
{"key":"a","n":"2"}
{"key":"a","n":-1}
{"key":"a","n":0}
{"key":"a","key":"b"}
{"key":""}
{"key":"\ud800"}
{"key":"a"}{"key":"a"}
{"key":"a","at":true}
{"key":"a","at":"noon"}
{"key":"b"}`,
			rejected: "2:invalid_json 3:invalid_json 4:invalid_json 5:invalid_key 6:invalid_key 7:unknown_field 8:invalid_count 9:invalid_count " +
				"10:invalid_count 11:invalid_count 12:invalid_json 13:invalid_key 14:invalid_json 15:invalid_json 16:invalid_time 17:invalid_time",
			keys: "a=1 b=1"},
		{name: "json object", contentType: jsonType, body: "{\n \"key\": \"a\",\n \"n\": 2,\n \"at\": 1769860799.5\n}\n", status: 200, counted: 2, keys: "a=2"},
		{name: "json at in scientific form", contentType: jsonType, body: `{"key":"a","at":1.7698608E9}`, status: 200, counted: 1, keys: "a=1"},
		{name: "json array", contentType: "application/json; charset=utf-8", body: ` [ {"key":"a"} , {"key":"b","n":2},{"key":"],[}\""}]`, status: 200, counted: 4, keys: "a=1 b=2"},
		{name: "json array bad among good", contentType: jsonType, body: `[{"key":"a"},1,"a",{"key":"a" "n":1},[{"key":"a"}],{"key":"b"}]`, status: 200, counted: 2,
			rejected: "2:invalid_json 3:invalid_json 4:invalid_json 5:invalid_json", keys: "a=1 b=1"},
		{name: "json array broken", contentType: jsonType, body: `[{"key":"a"},,{"key":"b"}]`, status: 200, counted: 1, rejected: "2:invalid_json", keys: "a=1 b=0"},
		{name: "json array with long element", contentType: jsonType, body: `[{"key":"a"},{"key":"` + strings.Repeat("x", 200_000) + `"},{"key":"b"}]`,
			status: 200, counted: 2, rejected: "2:line_too_long", keys: "a=1 b=1"},
		{name: "json array cut", contentType: jsonType, body: `[{"key":"a"},{"key":"b"`, status: 400, code: "body_broken", counted: 1, keys: "a=1 b=0"},
		{name: "json object cut", contentType: jsonType, body: `{"key":`, status: 400, code: "body_broken"},
		{name: "json array unclosed", contentType: jsonType, body: `[{"key":"a"}`, status: 400, code: "body_broken", counted: 1, keys: "a=1"},
		{name: "json after the end", contentType: jsonType, body: `[{"key":"a"}] x`, status: 200, counted: 1, rejected: "2:invalid_json", keys: "a=1"},
		{name: "json empty array", contentType: jsonType, body: `[]`, status: 400, code: "empty_body"},
		{name: "json scalar", contentType: jsonType, body: `17`, status: 400, code: "nothing_counted", rejected: "1:invalid_json"},
		{name: "json lines as json", contentType: jsonType, body: "{\"key\":\"a\"}\n{\"key\":\"b\"\n{\"key\":\"c\"}", status: 200, counted: 2, rejected: "2:invalid_json", keys: "a=1 c=1"},

		{name: "curl text", contentType: "application/x-www-form-urlencoded", body: "url:/home 2", status: 200, counted: 2, keys: "url:/home=2"},
		{name: "curl json", contentType: "application/x-www-form-urlencoded", body: `{"key":"a"}`, status: 200, counted: 1, keys: "a=1"},
		{name: "curl array", contentType: "application/x-www-form-urlencoded", body: `[{"key":"a"}]`, status: 200, counted: 1, keys: "a=1"},
		{name: "curl -d joins lines", contentType: "application/x-www-form-urlencoded", body: "a 1 2026-01-31T12:00:00Zb 2", status: 400, code: "nothing_counted", rejected: "1:invalid_line"},
		{name: "no type", body: "a 2", status: 200, counted: 2, keys: "a=2"},
		{name: "form", contentType: "application/x-www-form-urlencoded", body: "key=a&n=2", status: 415, code: "unsupported_type"},
		{name: "xml", contentType: "application/xml", body: "<a/>", status: 415, code: "unsupported_type"},
		{name: "latin 1", contentType: "text/plain; charset=iso-8859-1", body: "a", status: 415, code: "unsupported_type"},
		{name: "broken type", contentType: "text/", body: "a", status: 415, code: "unsupported_type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newTestAPI(t, engine.Config{}, options{})
			r := a.do(http.MethodPost, "/v1/hits", c.contentType, c.body)
			if c.code != "" {
				a.wantProblem(r, c.code, c.status)
			}
			var got api.HitsAnswer
			if err := json.Unmarshal([]byte(r.body), &got); err != nil {
				t.Fatal(err)
			}
			var rejected []string
			for _, l := range got.Rejected {
				rejected = append(rejected, fmt.Sprintf("%d:%s", l.Line, l.Code))
				if l.Message == "" {
					t.Errorf("line %d has no message", l.Line)
				}
			}
			if r.status != c.status || got.Counted != c.counted || got.Late != c.late || got.TooLate != c.tooLate ||
				strings.Join(rejected, " ") != c.rejected || got.RejectedLines != len(rejected) {
				t.Errorf("got %d %s\nwant %d, counted %d, late %d, too late %d, rejected %s", r.status, r.body, c.status, c.counted, c.late, c.tooLate, c.rejected)
			}
			for _, want := range strings.Fields(c.keys) {
				i := strings.LastIndex(want, "=")
				var count api.Bounds
				a.getInto("/v1/count?window=1d&key="+want[:i], &count)
				if fmt.Sprint(count.Estimate) != want[i+1:] || !count.Exact {
					t.Errorf("%s: got %+v", want, count)
				}
			}
		})
	}
}

func TestHitsListsTheFirstRejected(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	r := a.do(http.MethodPost, "/v1/hits", "text/plain", "a\n"+strings.Repeat("b 0\n", 100))
	var got api.HitsAnswer
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatal(err)
	}
	if r.status != 200 || got.RejectedLines != 100 || len(got.Rejected) != 20 || got.Rejected[19].Line != 21 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if !strings.Contains(a.get("/metrics").body, "weir_rejected_lines_total 100\n") {
		t.Error("weir_rejected_lines_total is not 100")
	}
}

// A body that was not compressed is not said to be so.
func TestCutJSONSays(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for _, body := range []string{`{"key":`, `[{"key":"a"}`} {
		r := a.do(http.MethodPost, "/v1/hits", "application/json", body)
		if !strings.Contains(r.body, "in the middle of its JSON") || strings.Contains(r.body, "compress") {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

func TestOneHitTooLate(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for body, want := range map[string]string{"a 1 1000": "the hit is older", "a 2 1000": "all 2 hits are older"} {
		if r := a.do(http.MethodPost, "/v1/hits", "text/plain", body); !strings.Contains(r.body, want) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

func TestHitsAnswerShape(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	r := a.do(http.MethodPost, "/v1/hits", "text/plain", "a")
	if want := `{"counted":1,"late":0,"too_late":0,"rejected_lines":0,"rejected":[]}` + "\n"; r.body != want {
		t.Errorf("got %s, want %s", r.body, want)
	}
	r = a.do(http.MethodPost, "/v1/hits", "text/plain", "a 0")
	want := `{"title":"Bad Request","status":400,"code":"nothing_counted","detail":"the hit could not be counted; line 1: n must be a whole number from 1 to 1099511627776, in digits",` +
		`"counted":0,"late":0,"too_late":0,"rejected_lines":1,"rejected":[{"line":1,"code":"invalid_count","message":"n must be a whole number from 1 to 1099511627776, in digits"}]}` + "\n"
	if r.body != want {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
}

// A body with too many lines is refused whole, and nothing of it counts.
func TestHitsBeyondTheBatch(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxBatch: 3}})
	object, objects := `{"key":"%s"}`, func(n int) string { return strings.Repeat(",{\"key\":\"c\"}", n)[1:] }
	for name, test := range map[string]struct{ contentType, fits, over string }{
		"text":         {"text/plain", "a\na\na", "a\na\na\na"},
		"text, ended":  {"text/plain", "a\na\na\n", "a\na\na\na\n"},
		"blank lines":  {"text/plain", "a\n\n\n", "a\n\n\n\n"},
		"ndjson":       {"application/x-ndjson", strings.Repeat(object+"\n", 3), strings.Repeat(object+"\n", 4)},
		"array":        {"application/json", "[" + objects(3) + "]", "[" + objects(4) + "]"},
		"array, wide":  {"application/json", "[\n\n\n\n\n" + objects(3) + "\n]", "[" + objects(5000) + "]"},
		"not declared": {"", "[" + objects(3) + "]", "[" + objects(4) + "]"},
	} {
		for _, headers := range [][]string{nil, {IdempotencyKey, `"` + name + `"`}, {"Content-Encoding", "gzip"}} {
			body := func(plain string) string {
				if headers != nil && headers[1] == "gzip" {
					return compress(t, "gzip", []byte(plain))
				}
				return plain
			}
			before := a.engine.Stats().Hits
			r := a.do(http.MethodPost, "/v1/hits", test.contentType, body(test.over), headers...)
			a.wantProblem(r, api.CodeTooManyLines, 413)
			if got := a.engine.Stats().Hits - before; got != 0 {
				t.Errorf("%s %v: %d of a refused body were counted", name, headers, got)
			}
			if r := a.do(http.MethodPost, "/v1/hits", test.contentType, body(test.fits), headers...); r.status != 200 {
				t.Errorf("%s %v, as many as may be: %d %s", name, headers, r.status, r.body)
			}
		}
	}
}

// JSON that was declared as text is reported, and not counted as keys.
func TestJSONDeclaredAsText(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for _, body := range []string{`{"key":"a"}`, "\n [{\"key\":\"a\"}]", "[\n{\"key\":\"a\"}\n]", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n"} {
		r := a.do(http.MethodPost, "/v1/hits", "text/plain;charset=UTF-8", body)
		a.wantProblem(r, api.CodeUnsupportedType, 415)
		if !strings.Contains(r.body, "application/json") {
			t.Errorf("%q: %s", body, r.body)
		}
	}
	r := a.do(http.MethodPost, "/v1/hits", "text/plain", "a\n{\"key\":\"b\"}\n[::1] 2\nc")
	if r.status != 200 || !strings.HasPrefix(r.body, `{"counted":2,`) || !strings.Contains(r.body, `"rejected_lines":2,"rejected":[{"line":2,"code":"invalid_line"`) {
		t.Errorf("among lines of text: %d %s", r.status, r.body)
	}
	for _, contentType := range []string{"application/json", "", "application/x-www-form-urlencoded"} { // a key that begins so
		if r := a.do(http.MethodPost, "/v1/hits", contentType, `{"key":"{x}"}`); r.status != 200 {
			t.Errorf("%q: %d %s", contentType, r.status, r.body)
		}
	}
	if n, err := a.engine.Count("{x}", time.Minute); err != nil || n.Estimate != 3 || a.engine.Stats().Hits != 5 {
		t.Errorf("{x}: %v %v, of %d hits", n, err, a.engine.Stats().Hits)
	}
}

func TestHitsOnAClosedEngine(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.engine.Close()
	a.wantProblem(a.do(http.MethodPost, "/v1/hits", "text/plain", "a"), api.CodeClosed, 503)
}

// The counts of limits are the limits' own: nobody else adds to them.
func TestHitsOfLimitsAreRejected(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for contentType, body := range map[string]string{
		"text/plain":           "limit:login:denied 9\nlimits\n",
		"application/x-ndjson": "{\"key\":\"limit:login:denied\",\"n\":9}\n{\"key\":\"limits\"}\n",
		"application/json":     `[{"key":"\u006cimit:login:denied"},{"key":"limits"}]`,
	} {
		r := a.do(http.MethodPost, "/v1/hits", contentType, body)
		if r.status != 200 || !strings.Contains(r.body, `"counted":1,`) || !strings.Contains(r.body, `{"line":1,"code":"reserved_key",`) {
			t.Errorf("%s: %d %s", contentType, r.status, r.body)
		}
	}
	if r := a.get("/v1/count?key=limit:login:denied"); !strings.Contains(r.body, `"upper":0,`) {
		t.Errorf("counted: %s", r.body)
	}
}
