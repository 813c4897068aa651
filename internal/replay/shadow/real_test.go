package shadow

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/weir-counter/weir/internal/engine"
)

// Real logs against the model, where these are.
func TestTruthOfRealLogs(t *testing.T) {
	const dir = "../../../../shared/data"
	if _, err := os.Stat(dir); err != nil {
		t.Logf("no real logs here (%v): the made-up ones have to do", err)
		return
	}
	limits := []modelLimit{
		{name: "address", prefix: "ip:", limit: engine.Limit{N: 10, Per: time.Minute, Burst: 10}},
		{name: "page", prefix: "url:", limit: engine.Limit{N: 250, Per: time.Hour, Burst: 250}},
	}
	for _, file := range []string{"nasa_aug95_head.log.gz", "elastic_apache.log.gz"} {
		t.Run(file, func(t *testing.T) {
			name := filepath.Join(dir, file)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			checkTruth(t, limits, readLog(t, name), text, []string{"ip:{host}", "url:{path}"})
		})
	}
}

// readLog reads an access log as plainly as can be.
func readLog(t *testing.T, name string) (log []ask) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(z); s.Scan(); {
		host, rest, _ := strings.Cut(s.Text(), " ")
		_, rest, _ = strings.Cut(rest, "[")
		when, rest, _ := strings.Cut(rest, "]")
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
		if err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		a := ask{at: at.Unix(), n: 1, keys: []string{"ip:" + host}}
		request := rest[strings.Index(rest, `"`)+1 : strings.LastIndex(rest, `" `)]
		if end := strings.Index(request, `" `); end >= 0 { // the combined format goes on
			request = request[:end]
		}
		if words := strings.Fields(request); len(words) > 1 && len("url:"+words[1]) <= engine.MaxKeyBytes {
			a.keys = append(a.keys, "url:"+words[1])
		}
		log = append(log, a)
	}
	if len(log) < 10_000 {
		t.Fatalf("only %d lines", len(log))
	}
	return log
}
