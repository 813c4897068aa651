package replay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines as vendors document their formats, with values of our own.
const (
	s3Log = `0a1b2c logs-bucket [31/Jan/2026:09:30:05 +0000] 192.0.2.44 arn:aws:iam::111122223333:user/eve 5F6A REST.GET.OBJECT img/a%20b.png "GET /logs-bucket/img/a%20b.png?versionId=3 HTTP/1.1" 200 - 512 512 21 20 "https://news.example/" "Firefox \"x\"" 3 h0= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader logs-bucket.s3.example TLSv1.2 - -
0a1b2c logs-bucket [31/Jan/2026:09:30:06 +0000] 192.0.2.45 - 5F6B BATCH.DELETE.OBJECT old.txt - 204 - - 10 - - - - 3 h0= SigV4 - AuthHeader logs-bucket.s3.example TLSv1.2 - -
0a1b2c logs-bucket [31/Jan/2026:09:30:06 +0000] 192.0.2.45 - 5F6C WEBSITE.GET.OBJECT no.html "GET /no.html HTTP/1.1" 404 NoSuchKey 300 - 5 - "-" "-" -
`
	cloudFrontLog = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes\n" +
		"2026-01-31\t09:30:05\tFRA56-P4\t512\t192.0.2.44\tGET\td1.cloudfront.example\t/a/b.html\t200\thttps://news.example/\tMozilla/5.0%2520(X11)%20Firefox/1\tutm_source=mail\t-\tHit\tid==\texample.com\thttps\t23\n" +
		"2026-01-31\t09:30:06\tFRA56-P4\t100\t2001:db8::1\tPOST\td1.cloudfront.example\t/form\t302\t-\t-\t-\t-\tMiss\tid==\texample.com\thttps\t23\n"
	iisLog = "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus time-taken\n" +
		"2026-01-31 09:30:05 10.0.0.1 GET /a.aspx id=1 443 - 192.0.2.44 Mozilla/5.0+(Windows+NT+10.0) https://news.example/ 200 0 15\n"
)

func TestLogsOfTheEdge(t *testing.T) {
	for _, test := range []struct {
		name, log string
		format    Format
		keys      string // that templates make, line by line
	}{
		{"S3", s3Log, S3, "p:/logs-bucket/img/a%20b.png?versionId=3 h:192.0.2.44 s:200 m:GET a:Firefox \\\"x\\\" r:https://news.example/ v:logs-bucket.s3.example b:logs-bucket o:REST.GET.OBJECT u:arn:aws:iam::111122223333:user/eve|" +
			"h:192.0.2.45 s:204 v:logs-bucket.s3.example b:logs-bucket o:BATCH.DELETE.OBJECT|p:/no.html h:192.0.2.45 s:404 m:GET b:logs-bucket o:WEBSITE.GET.OBJECT"},
		{"CloudFront", cloudFrontLog, W3C, "p:/a/b.html?utm_source=mail h:192.0.2.44 s:200 m:GET a:Mozilla/5.0 (X11) Firefox/1 r:https://news.example/ v:example.com x:Hit|p:/form h:2001:db8::1 s:302 m:POST v:example.com x:Miss"},
		{"CloudFront without its first lines", cloudFrontLog[strings.LastIndex(cloudFrontLog, "\n2026")+1:], W3C, "p:/form h:2001:db8::1 s:302 m:POST v:example.com x:Miss"},
		{"IIS", iisLog, W3C, "p:/a.aspx?id=1 h:192.0.2.44 s:200 m:GET a:Mozilla/5.0 (Windows NT 10.0) r:https://news.example/"},
	} {
		format, reasons := detect([]byte(test.log))
		if format != test.format || reasons != "" {
			t.Errorf("%s: %s %s", test.name, format, reasons)
			continue
		}
		texts := []string{"p:{path}", "h:{host}", "s:{status}", "m:{method}", "a:{agent}", "r:{referer}", "v:{vhost}"}
		if format == S3 {
			texts = append(texts, "b:{bucket}", "o:{operation}", "u:{user}")
		} else {
			texts = append(texts, "x:{x-edge-result-type}")
		}
		templates, err := parseTemplates(texts)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := newPlan(format, templates)
		if err != nil {
			t.Fatal(err)
		}
		plan.columns = columnsOf([]byte(test.log))
		p, l, at := plan.newParser(), plan.newLine(), int64(1769851805)
		var lines []string
		for text := range strings.Lines(test.log) {
			if strings.HasPrefix(text, "#") {
				if err := p.parse([]byte(text), &l); !errors.Is(err, errComment) {
					t.Errorf("%s: %v", test.name, err)
				}
				continue
			}
			if err := p.parse([]byte(strings.TrimSuffix(text, "\n")), &l); err != nil || l.at < at || l.at > at+1 || l.n != 1 {
				t.Errorf("%s: %d, %d, %v", test.name, l.at, l.n, err)
			}
			var keys []string
			for i := range plan.bound {
				if key, ok := plan.bound[i].appendKey(nil, l.fields); ok {
					keys = append(keys, string(key))
				}
			}
			lines = append(lines, strings.Join(keys, " "))
		}
		if got := strings.Join(lines, "|"); got != test.keys {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.keys)
		}
	}
}

// The first lines of a log are no malformed ones, and a field that it lacks is an error that lists those it has.
func TestReportOfTheEdge(t *testing.T) {
	r, err := ofText(t, []byte(cloudFrontLog), Options{})
	if err != nil || r.Format != W3C || r.Hits != 2 || r.Malformed != 0 || len(r.Top) != 2 || r.Top[0].Keys[0].Key != "url:/a/b.html?utm_source=mail" {
		t.Errorf("%v\n%s", err, encode(t, r))
	}
	names := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	for i, text := range []string{cloudFrontLog, iisLog} {
		if err := os.WriteFile(names[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := Run(t.Context(), Options{Files: names}); err == nil || !strings.Contains(err.Error(), "names other columns") || r.Hits != 2 {
		t.Error(err)
	}
	for text, want := range map[string]string{
		cloudFrontLog: "key template x:{nobody}: no line has such a field; the lines have {agent} {bytes} {host} {method} {path} {referer} {status} {vhost} {date} {time} {x-edge-location}",
		s3Log:         "a s3 log has no field {nobody}; it has {host}",
		`h - - [31/Jan/2026:09:30:05 +0000] "GET / HTTP/1.1" 200 1` + "\n": "a clf log has no field {nobody}",
	} {
		if _, err := ofText(t, []byte(text), Options{Keys: []string{"x:{nobody}"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	log := `h - - [31/Jan/2026:09:30:05 +0000] "GET / HTTP/1.1" 200 1 "-" "Firefox"` + "\n"
	if _, err := ofText(t, []byte(log), Options{Keys: []string{"login:{user}"}}); err == nil || !strings.Contains(err.Error(), "key template login:{user}: no line has such a field; the lines have {host} {time} {request} {method} {path} {proto} {status} {bytes} {agent}") {
		t.Error(err)
	}
}

// A log in no format says why, for each.
func TestReasons(t *testing.T) {
	_, err := ofText(t, []byte("2026-01-31T09:30:05Z example app[7]: GET / 200\n"), Options{})
	for _, want := range []string{"clf (no time like [", "s3 (no [time] after", "w3c (no date and time", "json (not a JSON object)", "tsv (the time is not"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
