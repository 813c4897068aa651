package replay

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// A question and its true answer: hits of kind (all, url, host) in (t-w, t].
type truth struct {
	t, w      int64
	kind, key string
	count     uint64
}

// checkTruths sends the log to a server in one run, and compares the answers: lower <= true <= upper. The pipeline has the exact
// hits of all lines.
func checkTruths(t *testing.T, o Options, truths []truth) {
	t.Helper()
	e, to := serve(t, engine.Config{Clock: engine.EventClock, Retention: 1000 * time.Hour}, func(h http.Handler) http.Handler { return h })
	o.To = to
	o = o.withDefaults()
	templates, err := o.prepare()
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(&o, templates, nil)
	if _, err := p.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, q := range truths {
		if q.kind == "all" {
			if got := p.all.count(q.t, q.w); got != q.count {
				t.Fatalf("(%d-%d, %d]: got %d, want %d", q.t, q.w, q.t, got, q.count)
			}
			continue
		}
		key := q.kind + ":" + q.key
		got, err := e.CountAt(time.Unix(q.t, 0), key, time.Duration(q.w)*time.Second)
		if err != nil || q.count < got.Lower || q.count > got.Upper {
			t.Fatalf("(%d-%d, %d] of %q: got %+v (%v), want %d", q.t, q.w, q.t, key, got, err, q.count)
		}
	}
}

// Answers against brute force on a made-up log.
func TestTruthOfMadeUpLog(t *testing.T) {
	text := testLog(t, 3000, 4)
	type hit struct {
		at        int64
		url, host string
	}
	var hits []hit
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		host, rest, _ := strings.Cut(s.Text(), " ")
		_, rest, _ = strings.Cut(rest, "[")
		when, rest, _ := strings.Cut(rest, "]")
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
		if err != nil {
			t.Fatal(err)
		}
		hits = append(hits, hit{at.Unix(), strings.Fields(rest)[1], host})
	}
	var truths []truth
	for i := 0; i < len(hits); i += 500 {
		for _, w := range []int64{1, 60, 300, 86400} {
			all := truth{t: hits[i].at + int64(i%3), w: w, kind: "all"}
			url, host := all, all
			url.kind, url.key, host.kind, host.key = "url", hits[i].url, "host", hits[i].host
			for _, h := range hits {
				if h.at <= all.t-w || h.at > all.t {
					continue
				}
				all.count++
				if h.url == url.key {
					url.count++
				}
				if h.host == host.key {
					host.count++
				}
			}
			truths = append(truths, all, url, host)
		}
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	checkTruths(t, Options{Files: []string{name}, Now: func() time.Time { return testNow }}, truths)
}

// Answers against the exact ones that come with the real logs, where these are.
func TestTruthOfRealLogs(t *testing.T) {
	const dir = "../../../shared/data"
	if _, err := os.Stat(dir); err != nil {
		t.Logf("no real logs here (%v): the made-up log has to do", err)
		return
	}
	for oracle, file := range map[string]string{
		"oracle_nasa_aug95_head.tsv":   "nasa_aug95_head.log.gz",
		"oracle_elastic_apache.tsv":    "elastic_apache.log.gz",
		"oracle_nasa_jul95_persec.tsv": "nasa_jul95_persec.tsv.gz",
	} {
		t.Run(file, func(t *testing.T) {
			truths := readTruths(t, filepath.Join(dir, oracle))
			if len(truths) < 100 {
				t.Fatalf("only %d questions", len(truths))
			}
			o := Options{Files: []string{filepath.Join(dir, file)}}
			if strings.HasSuffix(file, ".tsv.gz") {
				o.Keys = []string{"log:all"} // its lines are times and numbers
			}
			checkTruths(t, o, truths)
		})
	}
}

func readTruths(t *testing.T, name string) (truths []truth) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		cells := strings.Split(row, "\t")
		at, err1 := strconv.ParseInt(cells[0], 10, 64)
		w, err2 := strconv.ParseInt(cells[1], 10, 64)
		count, err3 := strconv.ParseUint(cells[4], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("%s: row %d: %q", name, i+2, row)
		}
		truths = append(truths, truth{at, w, cells[2], cells[3], count})
	}
	return truths
}
