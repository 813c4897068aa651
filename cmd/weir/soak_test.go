package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var soakRounds = flag.Int("soak.rounds", 30, "rounds of mixed work in TestSoak")

// soakSample is what a process holds at the end of a round.
type soakSample struct {
	goroutines, descriptors, resident float64
	disk                              float64 // bytes of the data directory
}

// A server that does the same work again and again holds what it held: goroutines,
// descriptors, memory, disk. Nor does its log grow with requests that are wrong or cut off.
func TestSoak(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir, "--snapshot-every", "64KiB", "--memory", "32MiB", "--flush-every", "5ms")
	samples := make([]soakSample, 0, *soakRounds)
	for round := range *soakRounds {
		soakRound(t, p, round)
		samples = append(samples, soakSampleOf(t, p, dir))
	}
	log, err := p.end(t, syscall.SIGTERM)
	if err != nil {
		t.Fatalf("it ended with %v:\n%s", err, log)
	}
	steady := samples[len(samples)/3:] // caches and pools are filled by then
	for _, kind := range []struct {
		name  string
		value func(soakSample) float64
		most  float64 // growth over all of steady
	}{
		{"goroutines", func(s soakSample) float64 { return s.goroutines }, 12},
		{"descriptors", func(s soakSample) float64 { return s.descriptors }, 12},
		{"resident bytes", func(s soakSample) float64 { return s.resident }, 64 << 20},
		{"bytes on disk", func(s soakSample) float64 { return s.disk }, 24 << 20},
	} {
		growth := slope(steady, kind.value) * float64(len(steady))
		t.Logf("%s: %.0f at first, %.0f in the end, growth %.1f over %d rounds", kind.name, kind.value(steady[0]), kind.value(steady[len(steady)-1]), growth, len(steady))
		if growth > kind.most {
			t.Errorf("%s grow by %.0f over %d rounds of the same work, more than %.0f", kind.name, growth, len(steady), kind.most)
		}
	}
	if *soakRounds >= soakSettled {
		if middle, last := diskOfThirds(samples); !growthEnds(middle, last) {
			t.Errorf("bytes on disk still grow: %.0f in the last third of %d rounds, %.0f in the middle one", last, *soakRounds, middle)
		}
	}
	// A backup and a deletion a round: a line for the one, and one of the audit log for each.
	if perRound := len(log) / *soakRounds; len(log) > 16<<10 && perRound > 600 {
		t.Errorf("%d bytes of log a round:\n%.4000s", perRound, log)
	}
}

// soakSettled is after how many rounds the disk's growth must have ended: until the journal
// has as much as is written between two rounds of snapshots, it grows.
const soakSettled = 300

// diskOfThirds are the mean bytes on disk in the middle and the last third of the samples.
func diskOfThirds(samples []soakSample) (middle, last float64) {
	n := len(samples) / 3
	for i := range n {
		middle += samples[n+i].disk / float64(n)
		last += samples[len(samples)-n+i].disk / float64(n)
	}
	return middle, last
}

// growthEnds allows the last third a quarter more than the middle one, or 2 MiB: snapshots
// and the journal between them come and go.
func growthEnds(middle, last float64) bool { return last-middle <= max(middle/4, 2<<20) }

// Growth of the same size each round is not taken for one that has ended, and one up to a
// bound is.
func TestGrowthEnds(t *testing.T) {
	var grows, ends []soakSample
	for round := range soakSettled {
		grows = append(grows, soakSample{disk: float64(round) * (100 << 10)})
		ends = append(ends, soakSample{disk: min(float64(round), 90) * (100 << 10)})
	}
	if middle, last := diskOfThirds(grows); growthEnds(middle, last) {
		t.Errorf("%.0f, then %.0f: said to have ended", middle, last)
	}
	if middle, last := diskOfThirds(ends); !growthEnds(middle, last) {
		t.Errorf("%.0f, then %.0f: said to go on", middle, last)
	}
}

// slope is that of the least squares' line through the samples, per round.
func slope(samples []soakSample, value func(soakSample) float64) float64 {
	n := float64(len(samples))
	var sx, sy, sxx, sxy float64
	for i, s := range samples {
		x, y := float64(i), value(s)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// soakRound is one round of everything that a server is asked for, and of what it
// refuses.
func soakRound(t *testing.T, p *process, round int) {
	t.Helper()
	var hits strings.Builder
	for i := range 200 {
		fmt.Fprintf(&hits, "soak:%d %d\n", i, 1+round%3)
	}
	const text, object = "text/plain", "application/json"
	for _, request := range []struct{ method, path, kind, body string }{
		{http.MethodPost, "/v1/hits", text, hits.String()},
		{http.MethodPost, "/v1/hits?durable=true", text, "soak:durable\n"},
		{http.MethodPost, "/v1/hits", text, "wrong -5\n"},
		{http.MethodPost, "/v1/hits", text, "far 1 99999999999\n"},
		{http.MethodPost, "/v1/allow", object, fmt.Sprintf(`{"key":"user:%d","limit":{"name":"soak","n":3,"per":"1s"}}`, round%10)},
		{http.MethodPost, "/v1/allow", object, `{"key":`},
		{http.MethodGet, "/v1/count?key=soak:1&window=1h", "", ""},
		{http.MethodGet, "/v1/count?key=soak:1&window=0s", "", ""},
		{http.MethodGet, "/v1/top?window=1h&n=10", "", ""},
		{http.MethodGet, "/v1/keys?prefix=soak:&limit=100", "", ""},
		{http.MethodGet, "/v1/stats", "", ""},
		{http.MethodGet, "/v1/nothing", "", ""},
		{http.MethodDelete, "/v1/keys/soak:199", "", ""},
		{http.MethodGet, "/v1/backup", "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), request.method, "http://"+p.addr+request.path, strings.NewReader(request.body))
		if err != nil {
			t.Fatal(err)
		}
		if request.kind != "" {
			req.Header.Set("Content-Type", request.kind)
		}
		if request.path == "/v1/hits" && round%2 == 0 {
			req.Header.Set("Idempotency-Key", fmt.Sprint("soak-", round))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode >= http.StatusInternalServerError {
			t.Errorf("round %d: %s %s: %s", round, request.method, request.path, resp.Status)
		}
	}
	for _, cut := range []string{
		"", "GET /v1/keys HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"POST /v1/hits HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nsoak:cut 1\n", "nonsense\r\n\r\n",
	} {
		cutOff(t, p.addr, cut)
	}
}

// cutOff sends something, and goes.
func cutOff(t *testing.T, addr, send string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_, werr := io.WriteString(conn, send)
	if err := errors.Join(werr, conn.Close()); err != nil {
		t.Fatal(err)
	}
}

func soakSampleOf(t *testing.T, p *process, dir string) (s soakSample) {
	t.Helper()
	resp, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	into := map[string]*float64{"go_goroutines": &s.goroutines, "process_open_fds": &s.descriptors, "process_resident_memory_bytes": &s.resident}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if to := into[name]; to != nil {
			if *to, err = strconv.ParseFloat(value, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.goroutines == 0 || s.descriptors == 0 || s.resident == 0 {
		t.Fatalf("/metrics has no goroutines, descriptors or memory: %+v", s)
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we looked
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			s.disk += float64(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
