package replay

import (
	"fmt"
	"strings"
	"testing"
)

// Logs of each server say the same of a request.
func TestRequestsOfSites(t *testing.T) {
	for name, log := range map[string]string{
		"combined": `192.0.2.1 - - [31/Jan/2026:12:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "https://news.example/" "Firefox"`,
		"caddy": `{"level":"info","ts":1769860800.5241024,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"example.com",` +
			`"uri":"/a?b=1","headers":{"Accept":["*/*"],"User-Agent":["Firefox","x"],"Referer":["https:\/\/news.example\/"]},"tls":{}},"bytes_read":0,"status":200,"resp_headers":{"Server":["Caddy"],"X":[]}}`,
		"traefik": `{"ClientHost":"192.0.2.1","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/a?b=1","request_User-Agent":"Firefox","request_Referer":"https://news.example/","time":"2026-01-31T12:00:00Z"}`,
		"nginx":   `{"time_iso8601":"2026-01-31T12:00:00+00:00","request_method":"GET","status":"200","request_uri":"/a?b=1","http_referer":"https://news.example/","http_user_agent":"Firefox"}`,
	} {
		var got []string
		report, err := Run(t.Context(), Options{Files: []string{Stdin}, Stdin: strings.NewReader(log + "\n"), Workers: 1, Site: &Site{Keys: []string{"s:{name}"}, Views: "s:a", Filtered: "s:bot", Make: func(r Request) []string {
			got = append(got, fmt.Sprintf("%s %s %s %s %s %s", r.Method, r.Status, r.Path, r.Referrer, r.Agent, r.Purpose))
			return []string{"s:b", "s:a"}
		}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := "GET 200 /a?b=1 https://news.example/ Firefox "; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
		if len(report.Top) != 1 || len(report.Top[0].Keys) != 2 || report.Top[0].Keys[0].Key != "s:a" || report.Hits != 1 || report.Views != 1 || report.Visitors.Estimate != 1 || report.Top[0].Of != 1 {
			t.Errorf("%s: %+v", name, report.Top)
		}
	}
	for _, o := range []Options{{Stdin: strings.NewReader("1769860800 1 x\n"), Site: &Site{Keys: []string{"s"}}}, {Stdin: strings.NewReader(""), Keys: []string{"a"}, Site: &Site{Keys: []string{"s"}}}} {
		o.Files = []string{Stdin}
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

// Templates may name fields of inner objects, and the first value of a list.
func TestInnerFields(t *testing.T) {
	plan, err := newPlan(JSON, []template{{parts: []part{{field: "a.b"}, {field: "a.b.c"}, {field: "a.l"}, {field: "a.b.l"}, {field: "x"}, {field: "a.e"}, {field: "a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	p, l := plan.newParser(), plan.newLine()
	if err := p.parse([]byte(`{"ts":1,"a":{"b":{"c":"deep","l":[[1],2]},"l":["first","second"],"e":[ ]},"x":{"b":{"c":1}}}`), &l); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%q", l.fields); got != `["" "deep" "first" "1" "" "" ""]` {
		t.Error(got)
	}
}
