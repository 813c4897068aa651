//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// refusals are what a server answers to whoever wants what its journal can't take.
type refusals struct {
	plain, durable, decision string // codes; "": it was taken
	details                  []string
	took                     time.Duration
	counted                  uint64 // hits of the plain one and the durable one
}

const refusedLimit = `{"key":"refused","limit":{"n":1000000,"per":"1h"}}`

// tryAll asks for a plain hit, a durable one, and a decision of a limit that is journaled.
func (p *process) tryAll(t *testing.T) (r refusals) {
	t.Helper()
	post := func(path, body string) string {
		resp, err := http.Post("http://"+p.addr+path, contentTypeOf(body), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct {
			Code, Detail string
			Counted      uint64
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if r.counted += answer.Counted; resp.StatusCode == http.StatusOK {
			return ""
		}
		r.details = append(r.details, answer.Detail)
		if resp.StatusCode != http.StatusServiceUnavailable || answer.Detail == "" {
			t.Errorf("%s: %d, %+v", path, resp.StatusCode, answer)
		}
		return answer.Code
	}
	r.plain = post("/v1/hits", "refused 1")
	began := time.Now()
	r.durable = post("/v1/hits?durable=true", "refused 1")
	r.took = time.Since(began)
	r.decision = post("/v1/allow", refusedLimit)
	return r
}

func contentTypeOf(body string) string {
	if strings.HasPrefix(body, "{") {
		return "application/json"
	}
	return "text/plain"
}

// says tells whether a node is not ready for a reason, and its metric says so.
func (p *process) says(t *testing.T, code string) bool {
	t.Helper()
	r, ok := p.ready()
	if !ok || r.code != http.StatusServiceUnavailable || !r.alarm(code, "") {
		return false
	}
	resp, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var metrics bytes.Buffer
	if _, err := metrics.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(metrics.String(), `weir_alarm{code="`+code+`"} 1`)
}

// wantWell waits until nothing is wrong with a node, and hits and decisions are taken.
func (p *process) wantWell(t *testing.T) (counted uint64) {
	t.Helper()
	transporttest.Eventually(t, "all is well again, by itself", func() bool {
		r, ok := p.ready()
		if !ok || r.code != http.StatusOK || len(r.Alarms) > 0 {
			return false
		}
		tried := p.tryAll(t)
		counted += tried.counted
		return tried.plain == "" && tried.durable == "" && tried.decision == ""
	})
	return counted
}

// wantCountedInBackup takes a backup and looks at what is in it.
func wantCountedInBackup(t *testing.T, p *process, want string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.backup")
	for _, args := range [][]string{{"backup", file, "--server", p.addr}, {"restore", file, "--data", filepath.Join(dir, "data")}} {
		if code, _, stderr := weirOf(t, nil, "", args...); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, stderr)
		}
	}
	full := startProcess(t, filepath.Join(dir, "data"))
	wantCounted(t, full.addr, "refused", want)
	if log, err := full.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

// The disk of a node alone is full: it says so, durable hits fail at once with the
// reason, plain hits and decisions that a crash would forget are refused, and nothing of
// what it refused is counted. With space again all is well, and all is there after a kill.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	c := &processes{t: t, dirs: []string{t.TempDir()}}
	disks := newDisks(t, c, diskBytes)
	p := startProcess(t, c.dirs[0])
	counted := p.wantWell(t)
	disks[0].fill(t)
	transporttest.Eventually(t, "it says that the journal fails", func() bool {
		counted += p.tryAll(t).counted
		return p.says(t, "journal_failing")
	})
	transporttest.Eventually(t, "it says that the disk is full", func() bool {
		r, ok := p.ready()
		return ok && r.alarm("journal_failing", "the disk is full")
	})
	for range 5 {
		tried := p.tryAll(t)
		for _, detail := range tried.details {
			if !strings.Contains(detail, "the disk is full") {
				t.Errorf("while the disk is full: %s", detail)
			}
		}
		if tried.plain != "overloaded" || tried.durable != "journal_failing" || tried.decision != "overloaded" || tried.counted > 0 {
			t.Errorf("while the disk is full: %+v", tried)
		}
		if tried.took > 20*time.Second { // of 25 that a durable hit may wait
			t.Errorf("a durable hit was refused after %v", tried.took)
		}
	}
	if !p.says(t, "journal_failing") {
		t.Error("it does not say any more that the journal fails")
	}
	wantCountedInBackup(t, p, fmt.Sprint(counted))
	disks[0].free(t)
	counted += p.wantWell(t)
	if _, err := p.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("the process ended well in spite of SIGKILL")
	}
	p = startProcess(t, c.dirs[0])
	wantCounted(t, p.addr, "refused", fmt.Sprint(counted))
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

// A flood that is more than --max-disk leaves space for: hits are refused, the server says
// that its journal is full while it is, durable hits fail at once, and afterwards all is
// well by itself. What was counted is there after a restart, and nothing else.
func TestJournalFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := []string{"--max-disk", "57MiB", "--flush-every", "1m"}
	p := startProcess(t, dir, flags...)
	flood := newFlooder(t, p.addr, 400)
	var counted uint64
	transporttest.Eventually(t, "the server says that its journal is full, and refuses all that it must", func() bool {
		for refused := flood.refused; flood.refused == refused; {
			flood.send(t) // a flush takes them only once somebody waits for it
		}
		kicked := make(chan uint64)
		go func() { kicked <- p.kick() }()
		full := false
		for waiting := true; waiting && !full; {
			select {
			case n := <-kicked:
				counted += n
				waiting = false
			default:
			}
			if full = p.says(t, "journal_full"); full {
				tried := p.tryAll(t)
				counted += tried.counted
				full = tried.plain == "overloaded" && tried.durable == "journal_failing" && p.says(t, "journal_full")
				if tried.took > 20*time.Second {
					t.Errorf("a durable hit was refused after %v", tried.took)
				}
			}
			if !waiting {
				return full
			}
		}
		counted += <-kicked
		return full
	})
	counted += p.wantWell(t)
	t.Logf("%d hits were counted, of %d requests %d were refused", flood.counted+counted, flood.requests, flood.refused)
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
	p = startProcess(t, dir, flags...)
	wantCounted(t, p.addr, "*", fmt.Sprint(flood.counted+counted))
	p.wantWell(t)
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

// kick sends a durable hit, for which the next flush begins, and returns how many were
// counted.
func (p *process) kick() uint64 {
	resp, err := http.Post("http://"+p.addr+"/v1/hits?durable=true", "text/plain", strings.NewReader("kick 1"))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var answer struct{ Counted uint64 }
	_ = json.NewDecoder(resp.Body).Decode(&answer) // then none was
	return answer.Counted
}

// flooder sends many new keys.
type flooder struct {
	to                         *client.Client
	hits                       []client.Hit
	keyBytes                   int
	requests, refused, counted uint64
}

// floodHits are those of one request.
const floodHits = 20_000

func newFlooder(t *testing.T, server string, keyBytes int) *flooder {
	t.Helper()
	to, err := client.New(server, client.Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &flooder{to: to, keyBytes: keyBytes, hits: make([]client.Hit, floodHits)}
}

// send sends one request of new keys.
func (f *flooder) send(t *testing.T) {
	t.Helper()
	for i := range f.hits {
		f.hits[i].Key = fmt.Sprintf("%0*d", f.keyBytes, int(f.requests)*len(f.hits)+i)
	}
	receipt, err := f.to.Send(t.Context(), f.hits)
	f.requests++
	f.counted += receipt.Counted
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Code == "overloaded" || refused.Code == "journal_full" || refused.Code == "not_durable") {
		f.refused++
	} else if err != nil {
		t.Fatal(err)
	}
}
