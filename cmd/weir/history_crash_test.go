package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// seriesOf is what history has, with all hits that were taken before: asked for again while it is late.
func seriesOf(t *testing.T, p *process, query string) (series api.SeriesAnswer) {
	t.Helper()
	transporttest.Eventually(t, "history has all hits", func() bool {
		status, body := p.get(t, "/v1/series?fresh=10s&"+query)
		if status == http.StatusServiceUnavailable {
			return false
		}
		if err := json.Unmarshal([]byte(body), &series); err != nil || status != http.StatusOK || series.Source != "history" {
			t.Fatal(status, body, err)
		}
		return true
	})
	return series
}

// historyOf is how many hits history has of a key in three years, which must be exact.
func historyOf(t *testing.T, p *process, key string) (hits uint64) {
	t.Helper()
	for _, point := range seriesOf(t, p, "align=month&from=-1095d&key="+key).Points {
		if hits += point.Lower; !point.Exact {
			t.Errorf("%s: %s is not exact", key, point.Bounds)
		}
	}
	return hits
}

// A server that is killed in the middle of batches of history has in it, when it is started again,
// what it counts: every hit that outlived the kill, once.
func TestCrashHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir, "--history-every", "100ms", "--snapshot-every", "64KiB")
	old := fmt.Sprintf("old 1 %d", time.Now().AddDate(-2, 0, 0).Unix()) // beyond the retention: history alone has it
	for round := range 4 {
		for i := range 60 {
			if id := fmt.Sprintf("old-%d-%d", round, i); i%12 == 0 {
				if err := p.hit(old, id, true); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.hit(fmt.Sprintf("k%d", i%3), fmt.Sprintf("%d-%d", round, i), i%10 == 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.end(t, os.Kill); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		p = startProcess(t, dir, "--history-every", "100ms", "--snapshot-every", "64KiB")
		if err := p.hit(old, fmt.Sprintf("old-%d-0", round), true); err != nil { // a repeat
			t.Fatal(err)
		}
		if got, want := historyOf(t, p, "old"), uint64(5*(round+1)); got != want {
			t.Errorf("round %d: %d hits of two years ago, want %d", round, got, want)
		}
		for k := range 3 {
			key := fmt.Sprintf("k%d", k)
			var days uint64
			for _, point := range seriesOf(t, p, "align=day&from=-1d&key="+key).Points {
				days += point.Lower
				if !point.Exact {
					t.Errorf("round %d, %s: %s is not exact", round, key, point.Bounds)
				}
			}
			if counted := p.count(t, key); days != counted || days == 0 {
				t.Errorf("round %d, %s: history has %d hits, %d are counted", round, key, days, counted)
			}
		}
	}
}
