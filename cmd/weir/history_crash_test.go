package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/weir-counter/weir/client"
)

// A server that is killed in the middle of batches of history has in it, when it is started again,
// what it counts: every hit that outlived the kill, once.
func TestCrashHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir, "--history-every", "100ms", "--snapshot-every", "64KiB")
	for round := range 4 {
		for i := range 60 {
			if err := p.hit(fmt.Sprintf("k%d", i%3), fmt.Sprintf("%d-%d", round, i), i%10 == 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.end(t, os.Kill); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		p = startProcess(t, dir, "--history-every", "100ms", "--snapshot-every", "64KiB")
		for k := range 3 {
			key := fmt.Sprintf("k%d", k)
			status, body := p.get(t, "/v1/series?align=day&from=-1d&fresh=10s&key="+key)
			var series client.Series
			if err := json.Unmarshal([]byte(body), &series); err != nil || status != http.StatusOK || series.Source != "history" {
				t.Fatal(status, body, err)
			}
			var days uint64
			for _, point := range series.Points {
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
