package replay

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func newTestCLF() (*clfParser, line) {
	return &clfParser{tail: true, user: true}, line{fields: make([][]byte, clfFieldCount)}
}

func TestCLF(t *testing.T) {
	const when = "[10/Oct/2000:13:55:36 -0700]"
	const at = 971211336
	type fields map[int]string
	for _, test := range []struct {
		name, text string
		at         int64
		want       fields
	}{
		{"common", `127.0.0.1 - frank ` + when + ` "GET /apache_pb.gif HTTP/1.0" 200 2326`, at, fields{
			clfHost: "127.0.0.1", clfIdent: "", clfUser: "frank", clfMethod: "GET", clfPath: "/apache_pb.gif",
			clfProto: "HTTP/1.0", clfStatus: "200", clfBytes: "2326", clfTime: "10/Oct/2000:13:55:36 -0700",
			clfRequest: "GET /apache_pb.gif HTTP/1.0",
		}},
		{"combined", `::1 - - ` + when + ` "GET /a?b=%20c HTTP/2.0" 304 - "http://e.x/?q=\"y\"" "Agent (a; b)"`, at, fields{
			clfHost: "::1", clfPath: "/a?b=%20c", clfBytes: "", clfReferer: `http://e.x/?q=\"y\"`, clfAgent: "Agent (a; b)",
		}},
		{"no protocol", `h - - ` + when + ` "GET /ksc.html" 200 7280`, at, fields{clfPath: "/ksc.html", clfProto: ""}},
		{"request -", `h - - ` + when + ` "-" 408 -`, at, fields{clfHost: "h", clfPath: "", clfMethod: "", clfRequest: "-"}},
		{"empty request", `h - - ` + when + ` "" 400 0`, at, fields{clfPath: "", clfStatus: "400"}},
		{"escaped quote", `h - - ` + when + ` "GET /a\"b HTTP/1.1" 404 1`, at, fields{clfPath: `/a\"b`, clfProto: "HTTP/1.1"}},
		{"bare quote", `h - - ` + when + ` "GET /a" b" HTTP/1.0" 404 1`, at, fields{clfPath: `/a"`, clfProto: "HTTP/1.0"}},
		{"space in path", `h - - ` + when + ` "GET /a b HTTP/1.0" 404 1`, at, fields{clfPath: "/a", clfProto: "HTTP/1.0"}},
		{"two spaces", `h - - ` + when + ` "GET  /a HTTP/1.0" 404 1`, at, fields{clfPath: "/a"}},
		{"binary request", "h - - " + when + ` "\x16\x03\x01" 400 226 "-" "-"`, at, fields{clfMethod: `\x16\x03\x01`, clfPath: ""}},
		{"user with spaces and brackets", `h - J. [x] Doe ` + when + ` "GET / HTTP/1.0" 200 1`, at, fields{clfUser: "J. [x] Doe", clfPath: "/"}},
		{"status alone", `h - - ` + when + ` "GET / HTTP/1.0" 200`, at, fields{clfStatus: "200", clfBytes: ""}},
		{"status -", `h - - ` + when + ` "GET / HTTP/1.0" - -`, at, fields{clfStatus: "", clfBytes: ""}},
		{"half a zone hour", `h - - [10/Oct/2000:13:55:36 +0530] "GET / HTTP/1.0" 200 1`, 971166336, fields{}},
		{"leap second", `h - - [31/Dec/2016:23:59:60 +0000] "GET / HTTP/1.0" 200 1`, 1483228800, fields{}},
		{"unclosed agent", `h - - ` + when + ` "GET / HTTP/1.0" 200 1 "-" "cut off`, at, fields{clfReferer: "", clfAgent: ""}},
		{"vhost", `example.com:80 10.0.0.1 - - ` + when + ` "GET / HTTP/1.0" 200 1`, at, fields{clfHost: "10.0.0.1", clfVhost: "example.com:80", clfIdent: "", clfUser: ""}},
		{"vhost and IPv6", `[2001:db8::2]:443 2001:db8::1 - bob ` + when + ` "GET / HTTP/1.0" 200 1`, at, fields{clfHost: "2001:db8::1", clfVhost: "[2001:db8::2]:443", clfUser: "bob"}},
		{"IPv6 that ends like a port", `2001:db8::80 - - ` + when + ` "GET / HTTP/1.0" 200 1`, at, fields{clfHost: "2001:db8::80", clfVhost: ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, l := newTestCLF()
			if err := p.parse([]byte(test.text), &l); err != nil {
				t.Fatal(err)
			}
			if l.at != test.at || l.n != 1 {
				t.Errorf("at %d, n %d; want at %d, n 1", l.at, l.n, test.at)
			}
			for field, want := range test.want {
				if got := string(l.fields[field]); got != want {
					t.Errorf("{%s} is %q, want %q", clfFieldNames[field], got, want)
				}
			}
		})
	}
}

func TestCLFMalformed(t *testing.T) {
	for _, test := range []struct {
		text string
		want error
	}{
		{"", errNoHost},
		{"garbage", errNoHost},
		{" - - [10/Oct/2000:13:55:36 -0700]", errNoHost},
		{"h - - no time", errNoTime},
		{`h - - [10/Oct/2000:13:55:36] "GET / HTTP/1.0" 200 1`, errNoTime},
		{`h - - [31/Feb/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 1`, errNoTime},
		{`h - - [10/Okt/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 1`, errNoTime},
		{`h - - [10/Oct/2000:24:55:36 +0000] "GET / HTTP/1.0" 200 1`, errNoTime},
		{`h - - [10/Oct/2000:13:55:61 +0000] "GET / HTTP/1.0" 200 1`, errNoTime},
		{`h - - [10/Oct/2000:13:55:36 +0000`, errNoTime},
		{`h - - [10/Oct/1960:13:55:36 +0000] "GET / HTTP/1.0" 200 1`, errTimeRange},
		{`h - - [10/Oct/2700:13:55:36 +0000] "GET / HTTP/1.0" 200 1`, errTimeRange},
		{`h - - [10/Oct/2000:13:55:36 +0000]`, errNoRequest},
		{`h - - [10/Oct/2000:13:55:36 +0000] GET /`, errNoRequest},
		{`h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0`, errNoRequest},
		{`h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0"`, errNoStatus},
		{`h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 20`, errNoStatus},
		{`h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 2000 1`, errNoStatus},
	} {
		p, l := newTestCLF()
		if err := p.parse([]byte(test.text), &l); !errors.Is(err, test.want) {
			t.Errorf("%s\ngot  %v\nwant %v", test.text, err, test.want)
		}
	}
}

// naiveCLF reads a line by a regular expression and the time package.
var naiveCLF = regexp.MustCompile(`(?s)^([^ ]+) .*?\[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "(.*?)" (\d{3}|-)( .*)?$`)

func FuzzCLF(f *testing.F) {
	f.Add(`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`)
	f.Add(`h - - [29/Feb/2024:23:59:59 +1400] "GET /a\" b" 200 1 HTTP/1.1" 404 1 "r" "a"`)
	f.Add(`h - - [10/Oct/2000:13:55:36 +0000] "-" - -`)
	p, l := newTestCLF()
	f.Fuzz(func(t *testing.T, text string) {
		err := p.parse([]byte(text), &l)
		m := naiveCLF.FindStringSubmatch(text)
		if m == nil {
			if err == nil {
				t.Fatalf("%q was read, at %d", text, l.at)
			}
			return
		}
		at, timeErr := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if timeErr != nil || !inRange(at.Unix()) || strings.Contains(text[len(m[1]):], "[") && strings.Count(text[len(m[1]):], "[") > 1 {
			return // the expression takes the first bracket that looks like a time, good or not
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var path string
		if words := strings.FieldsFunc(m[3], func(r rune) bool { return r == ' ' }); len(words) > 1 {
			path = words[1]
		}
		for _, value := range []*string{&path, &m[4]} {
			if *value == "-" {
				*value = "" // it says that there is none
			}
		}
		if l.at != at.Unix() || string(l.fields[clfHost]) != m[1] || string(l.fields[clfPath]) != path || string(l.fields[clfStatus]) != m[4] {
			t.Fatalf("%q\ngot  %d %q %q %q\nwant %d %q %q %q", text,
				l.at, l.fields[clfHost], l.fields[clfPath], l.fields[clfStatus], at.Unix(), m[1], path, m[4])
		}
	})
}

// The cache must not change what a time means.
func TestCLFClockCache(t *testing.T) {
	var warm clfClock
	for day := range 800 {
		for _, zone := range []int{0, -7 * 3600, 5*3600 + 1800} {
			at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.FixedZone("", zone)).AddDate(0, 0, day).Add(time.Duration(day*37) * time.Second)
			text := at.Format("02/Jan/2006:15:04:05 -0700")
			got, ok := warm.parse([]byte(text))
			if !ok || got != at.Unix() {
				t.Fatalf("%s: %d, %v; want %d", text, got, ok, at.Unix())
			}
		}
	}
}
