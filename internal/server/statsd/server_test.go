package statsd

import (
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

func TestBothNetworks(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"udp", "tcp"} {
		s := newTestServer(t, Config{}, "")
		s.send(network, "a:1|c\nb:2|c|@0.1\r\n\na:4|c\ng:1|g\nnonsense\na:1|c|T1769850000\n")
		s.wantCount("a", 6)
		s.wantCount("b", 20)
		s.send(network, "last:1|c") // without an end
		s.wantCount("last", 1)
		eventually(t, "figures have what was counted", func() bool { return s.Figures().Requests[0].Count == 5 }) // the last line a moment later
		f := s.Figures()
		if got, want := fmt.Sprint(s.refusedBy()), "map[malformed:1 unsupported_gauge:1]"; got != want || f.Failed != 2 {
			t.Errorf("%s: %s, %+v", network, got, f)
		}
		if network == "udp" && *f.Packets != 2 {
			t.Errorf("%d datagrams", *f.Packets)
		}
	}
}

// Sampled lines never have an exact answer, in any question, and hits that were not sampled have one.
func TestSampledLinesAreInDoubt(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	s.send("tcp", "a:2|c|@0.1\na:3|c\nb:4|c\nalmost:1|c|@0.99\n"+strings.Repeat("x", 498)+":1|c|@0.5\nlast:1|c\n")
	s.wantCount("last", 1)
	minute := []time.Duration{time.Minute}
	answers, err := s.Server.service.Count(t.Context(), access.Caller{}, queries.CountQuery{Keys: []string{"a", "b", "almost", "*"}, Windows: minute})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"5 to 23, false", "4 to 4, true", "0 to 1, false", "10 to 29, false"} {
		if a := answers[i]; fmt.Sprintf("%d to %d, %v", a.Lower, a.Estimate, a.Exact) != want || (a.Upper == nil) == a.Exact {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	rates, err := s.Server.service.Rate(t.Context(), access.Caller{}, queries.CountQuery{Keys: []string{"a"}, Windows: minute})
	if err != nil || rates[0].Exact || rates[0].PerSecond.Upper != nil || rates[0].PerSecond.Estimate < 23./60 {
		t.Errorf("%+v %v", rates, err)
	}
	top, err := s.Server.service.Top(t.Context(), access.Caller{}, queries.TopQuery{Window: time.Minute, N: 10})
	if err != nil || len(top.Keys) != 4 || top.Keys[0].Lower != 5 || top.Keys[0].Estimate != 23 || top.Keys[0].Exact {
		t.Errorf("%+v %v", top, err)
	}
	if got := s.refusedBy(); !maps.Equal(got, map[string]uint64{"invalid_key": 1}) {
		t.Errorf("refused: %v", got)
	}
}

// What can't be counted is reported by its reason, once a minute in the log.
func TestReasons(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{MaxLineBytes: 64}, "")
	var text strings.Builder
	for range 100 {
		text.WriteString("a:1|g\n")
	}
	fmt.Fprintf(&text, "old:1|c|T%d\nahead:1|c|T%d\n%s:1|c\nlimit:a:1|c\nlimit%%3Aa:1|c\nms:1|c|T99999999999\nok:1|c\n", start.Add(-48*time.Hour).Unix(), start.Add(time.Hour).Unix(), strings.Repeat("x", 64))
	s.send("udp", text.String())
	s.wantCount("ok", 1)
	want := map[string]uint64{"unsupported_gauge": 100, "too_late": 1, "too_far_ahead": 1, "invalid_timestamp": 1, "line_too_long": 1, "invalid_value": 1}
	if got := s.refusedBy(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(s.log.String(), "unsupported_gauge"); n != 1 || !strings.Contains(s.log.String(), "send counters (|c) here") {
		t.Errorf("logged %d times:\n%s", n, s.log)
	}
}

// A line of a connection that is too long is skipped, in pieces of any size, and one that breaks off
// when the server stops counts nothing.
func TestLongLines(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{MaxLineBytes: 64}, "")
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, part := range []string{"a:1|c\nb:1|", "c\n", strings.Repeat("y", 1000), ":1|c\nc:1", "0|c\nd:1"} {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			s.wantCount("b", 1)
		}
	}
	s.wantCount("c", 10)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.wantCount("a", 1)
	s.wantCount("d", 0)
	if got := s.refusedBy(); !maps.Equal(got, map[string]uint64{"line_too_long": 1}) {
		t.Error(got)
	}
}

// What the kernel has of UDP when the server is to stop is counted.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	conn, err := net.Dial("udp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const datagrams = 100
	for range datagrams {
		if _, err := io.WriteString(conn, "a:1|c"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.wantCount("a", datagrams)
}

const tokens = `identities:
- {name: web, permissions: [{role: ingest, keys: ["web."]}], ceilings: {hits_per_second: 5}}
- {name: reader, permissions: [{role: read}]}
`

// All hits are those of the identity, with its prefixes and ceilings.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{Identity: "web"}, tokens)
	s.send("tcp", strings.Repeat("db.a:1|c\n", 30)+strings.Repeat("web.a:1|c\n", 50))
	eventually(t, "lines are refused", func() bool { return s.Figures().Failed == 75 })
	if got, want := s.refusedBy(), map[string]uint64{"forbidden": 30, "ceiling_reached": 45}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.wantCount("web.a", 5)
	accounts := s.Server.service.Accounts()
	if len(accounts) != 1 || accounts[0].Identity != "web" || accounts[0].Hits != 5 {
		t.Errorf("%+v", accounts)
	}

	s = newTestServer(t, Config{Identity: "reader"}, tokens)
	s.send("udp", "web.a:1|c\nweb.b:1|c")
	eventually(t, "lines are refused", func() bool { return s.refusedBy()["forbidden"] == 2 })
}

func TestUnknownIdentity(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{Identity: "web"}, tokens)
	if _, err := New(s.Server.service, Config{Identity: "nobody"}); err == nil || request.As(err).Code != api.CodeUnauthorized {
		t.Error(err)
	}
	if _, err := New(s.Server.service, Config{}); err == nil {
		t.Error("no identity, on a server with tokens")
	}
}

// Datagrams that the kernel drops are counted.
func TestDrops(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	svc, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(svc, Config{Addr: "127.0.0.1:0", ReadBuffer: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil { // nobody receives
		t.Fatal(err)
	}
	defer s.Close()
	if f := s.Figures(); f.Dropped == nil || *f.Dropped != 0 || len(s.Alarms()) != 0 {
		t.Errorf("%+v %v", f, s.Alarms())
	}
	conn, err := net.Dial("udp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const datagrams = 200
	for range datagrams {
		if _, err := io.WriteString(conn, strings.Repeat("a", 1000)+":1|c"); err != nil {
			t.Fatal(err)
		}
	}
	f, alarms := s.Figures(), s.Alarms()
	if *f.Dropped < datagrams/2 || *f.Dropped >= datagrams {
		t.Errorf("%d were dropped", *f.Dropped)
	}
	if len(alarms) != 1 || alarms[0].Code != "statsd_dropped" || !strings.Contains(alarms[0].Message, fmt.Sprintf("dropped %d ", *f.Dropped)) {
		t.Errorf("%+v", alarms)
	}
}

// One sender by TCP costs a connection and a goroutine, and one more than there may be takes the place of another.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{MaxConns: 2}, "")
	for range 3 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "one is shed", func() bool { f := s.Figures(); return f.Open == 2 && f.Shed == 1 && f.Bound == 2 })
}

// A page in a browser can have a request of HTTP sent here: nothing of it is counted, however long its first line is.
func TestPagesCountNothing(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{MaxLineBytes: 64}, "")
	for _, path := range []string{"/", "/" + strings.Repeat("x", 200)} {
		s.send("tcp", "POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Length: 14\r\n\r\nvictim:1000|c\n")
	}
	eventually(t, "both are refused", func() bool { return s.refusedBy()["malformed"] == 2 })
	s.send("tcp", "ok:1|c\n")
	s.wantCount("ok", 1)
	s.wantCount("victim", 0)
}
