package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// The memory of a key is what a whole engine counts for many keys, within a fifth.
func TestSizeOfKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ keys, each int64 }{{50_000, 1}, {20_000, 10}, {2000, 300}} {
		l := workload{keys: float64(test.keys), hits: float64(test.keys*test.each) / 86400, reads: 1, retention: 24 * time.Hour, nodes: 1, regions: 1, keyBytes: 20}
		s, err := newSizing(l)
		if err != nil {
			t.Fatal(err)
		}
		e, err := weir.New(weir.Config{Clock: weir.EventClock, Retention: l.retention})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		empty := e.Stats().Bytes
		for i := range test.keys * test.each {
			at := time.Unix(1e9+i/test.keys*86400/test.each, 0)
			if _, err := e.HitAt(at, fmt.Sprintf("user:%015d", i%test.keys), 1); err != nil {
				t.Fatal(err)
			}
		}
		real := (e.Stats().Bytes - empty) / test.keys
		if s.KeyMemory < real*4/5 || s.KeyMemory > real*6/5 {
			t.Errorf("%d hits a key: weir size says %d bytes, an engine has %d", test.each, s.KeyMemory, real)
		}
	}
}

// The bytes of a flush are those that a server writes, within a third.
func TestSizeOfFlushes(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for _, keys := range []int{1, 100, 10_000} {
		before := journalOf(t, server)
		var lines strings.Builder
		for i := range keys {
			fmt.Fprintf(&lines, "user:%015d\n", i)
		}
		answer, err := http.Post("http://"+server+"/v1/hits?durable=true", "text/plain", strings.NewReader(lines.String()))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
		after := journalOf(t, server)
		flushes := float64(after.Flushes - before.Flushes)
		got, want := float64(after.Bytes-before.Bytes), flushBytes*flushes+float64(partitionBytes*min(partitions, keys)+(entryBytes+20)*keys)
		if got < want*2/3 || got > want*4/3 {
			t.Errorf("%d keys: weir size says %.0f bytes, the journal has %.0f in %.0f flushes", keys, want, got, flushes)
		}
	}
}

func journalOf(t *testing.T, server string) api.JournalStats {
	t.Helper()
	code, stdout, stderr := weirOf(t, nil, "", "stats", "--json", "--server", server)
	var stats api.StatsAnswer
	if err := json.Unmarshal([]byte(stdout), &stats); code != exitOK || err != nil || stats.Journal == nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	return *stats.Journal
}

// The measurement is bounded, whatever the retention: this one was 138 million hits.
func TestSizeOfALongRetention(t *testing.T) {
	t.Parallel()
	l := workload{keys: 1, hits: 1e12, retention: 400 * 24 * time.Hour, nodes: 1, regions: 1, keyBytes: 20}
	if s, err := newSizing(l); err != nil || s.KeyMemory < 1000 {
		t.Errorf("%d bytes, %v", s.KeyMemory, err)
	}
}

// A number has one suffix.
func TestQuantity(t *testing.T) {
	t.Parallel()
	for range 100 { // whatever the order of the suffixes in a map
		var n float64
		if err := quantity(&n).Set("1kM"); err == nil {
			t.Fatalf("1kM is %v", n)
		}
	}
	for text, want := range map[string]float64{"200": 200, "1.5k/s": 1500, "3M": 3e6, "2G": 2e9} {
		var n float64
		if err := quantity(&n).Set(text); err != nil || n != want {
			t.Errorf("%s is %v, %v", text, n, err)
		}
	}
}
