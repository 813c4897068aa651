package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	internalbackup "github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// newDurableAPI is newTestAPI with a real journal in dir. stop ends it as a
// process does; it is called at the end of the test if not before.
func newDurableAPI(t *testing.T, dir string) (a *testAPI, stop func()) {
	t.Helper()
	engineCfg := engine.Config{Gather: true, Partitions: 4, Now: func() time.Time { return start }}
	e, err := engine.New(engineCfg)
	if err != nil {
		t.Fatal(err)
	}
	// A plain hit would wait for long: what is on disk soon was asked to be.
	j, err := durable.Open(t.Context(), e, durable.Config{Dir: dir, FlushEvery: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a = serveTestAPI(t, e, options{Backend: service.Backend{Journal: j, Figures: []func() any{func() any { return j.Stats() }}}, Service: service.Config{DurableTimeout: 45 * time.Second}})
	stop = sync.OnceFunc(func() {
		if err := j.Close(context.Background()); err != nil {
			t.Error(err)
		}
		e.Close()
	})
	t.Cleanup(stop)
	return a, stop
}

func (a *testAPI) wantCount(key string, want uint64) {
	a.Helper()
	var count api.Bounds
	a.getInto("/v1/count?window=1d&key="+key, &count)
	if count.Estimate != want || !count.Exact {
		a.Errorf("%s: %+v, want %d", key, count, want)
	}
}

func TestDurable(t *testing.T) {
	dir := t.TempDir()
	a, stop := newDurableAPI(t, dir)
	r := a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a 3\nb 0\nb")
	var got api.HitsAnswer
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != 200 || !got.Durable || got.Counted != 4 || got.RejectedLines != 1 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if s := a.server.service.Backend().Journal.(*durable.Journal).Stats(); s.Flushes != 1 {
		t.Errorf("%d flushes, want 1", s.Flushes)
	}
	r = a.do(http.MethodPost, "/v1/hits?durable=false", "text/plain", "a")
	if r.status != 200 || strings.Contains(r.body, "durable") {
		t.Errorf("not durable: got %d %s", r.status, r.body)
	}
	a.wantProblem(a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a 0"), api.CodeNothingCounted, 400)
	if s := a.server.service.Backend().Journal.(*durable.Journal).Stats(); s.Flushes != 1 {
		t.Errorf("%d flushes after a hit that did not ask for one, want 1", s.Flushes)
	}
	stop()
	a, _ = newDurableAPI(t, dir)
	a.wantCount("a", 4)
	a.wantCount("b", 1)
}

// Many requests that wait at once share flushes.
func TestDurableGroups(t *testing.T) {
	a, _ := newDurableAPI(t, t.TempDir())
	const clients, each = 16, 20
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				if r := a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a"); r.status != 200 {
					t.Errorf("got %d %s", r.status, r.body)
				}
			}
		})
	}
	wg.Wait()
	a.wantCount("a", clients*each)
	if s := a.server.service.Backend().Journal.(*durable.Journal).Stats(); s.Flushes >= clients*each {
		t.Errorf("%d flushes for %d requests of %d clients", s.Flushes, clients*each, clients)
	}
}

func TestDurableParameter(t *testing.T) {
	a, _ := newDurableAPI(t, t.TempDir())
	for query, code := range map[string]api.Code{
		"durable=maybe": api.CodeInvalidParameter, "durable=": api.CodeInvalidParameter, "durable": api.CodeInvalidParameter,
		"durable=true&durable=true": api.CodeInvalidParameter, "durable=%zz": api.CodeInvalidParameter,
		"durabel=true": api.CodeUnknownParameter, "durable=true&x=1": api.CodeUnknownParameter,
	} {
		a.wantProblem(a.do(http.MethodPost, "/v1/hits?"+query, "text/plain", "a"), code, 400)
	}
	a.wantCount("a", 0)
}

func TestEphemeral(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.wantProblem(a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a"), api.CodeEphemeral, 409)
	a.wantCount("a", 0)
	if r := a.get("/v1/stats"); !strings.Contains(r.body, `"durable":false`) || strings.Contains(r.body, "journal") {
		t.Errorf("an ephemeral server says %s", r.body)
	}
	if strings.Contains(a.get("/metrics").body, "weir_journal") {
		t.Error("an ephemeral server has metrics of a journal")
	}
}

// stuck is a disk that takes nothing.
type stuck struct{}

func (stuck) Sync(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
func (stuck) Restore(context.Context, io.Reader, api.RestoreMode) (api.Restored, error) {
	return api.Restored{}, internalbackup.ErrCountedTwice
}
func (stuck) Alarms() []api.Alarm { return nil }
func (stuck) AddStats(a *api.StatsAnswer) {
	a.Durable, a.Journal = true, &api.JournalStats{Failing: true, Failures: 3, LossyFindings: 2, HarmlessFindings: 1}
}
func (stuck) AddNodes(_ context.Context, a *api.ClusterAnswer) { a.Mode, a.Size = "alone", 1 }
func stuckFigures() any {
	return durable.Stats{Failing: true, Failures: 3, Lossy: 2, Harmless: 1, Repeats: 5, Unfinished: 4}
}

// failing is a stuck disk of which that is known, or not.
type failing struct {
	stuck
	mode atomic.Int32
}

const (
	silent   = iota // nothing is known yet
	electing        // failing, and not refusing: in a cluster
	refusing
)

func (s *failing) Alarms() []api.Alarm {
	if s.mode.Load() == silent {
		return nil
	}
	return []api.Alarm{{Code: "journal_failing", Message: "the disk takes nothing", Refusing: s.mode.Load() == refusing}}
}

// While the journal fails nobody waits for it: neither who comes then, of whom nothing is
// counted, nor who waits already.
func TestDurableWhileTheJournalFails(t *testing.T) {
	disk := &failing{}
	a := newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: disk}, Service: service.Config{DurableTimeout: time.Hour}, HTTP: Config{WriteTimeout: 2 * time.Hour}})
	const path = "/v1/hits?durable=true"
	waiting := make(chan reply)
	go func() { waiting <- a.do(http.MethodPost, path, "text/plain", "a 5") }()
	for a.engine.Stats().Hits == 0 {
		runtime.Gosched()
	}
	disk.mode.Store(refusing)
	r := <-waiting
	a.wantProblem(r, api.CodeNotDurable, 503)
	if !strings.Contains(r.body, "the 5 hits are counted, but are not on disk: the disk takes nothing") {
		t.Errorf("who waited: %s", r.body)
	}
	r = a.do(http.MethodPost, path, "text/plain", "a 5")
	a.wantProblem(r, api.CodeJournalFailing, 503)
	if !strings.Contains(r.body, "the disk takes nothing") || r.header.Get("Retry-After") != "1" || a.engine.Stats().Hits != 5 {
		t.Errorf("%s, Retry-After %q; %d hits counted", r.body, r.header.Get("Retry-After"), a.engine.Stats().Hits)
	}
}

// An election in a cluster is waited for, until somebody has waited in vain.
func TestDurableWhileNodesElect(t *testing.T) {
	disk := &failing{}
	disk.mode.Store(electing)
	a := newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: disk}, Service: service.Config{DurableTimeout: time.Millisecond}})
	post := func(want api.Code) {
		t.Helper()
		a.wantProblem(a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a"), want, 503)
	}
	post(api.CodeNotDurable)
	post(api.CodeJournalFailing)
	disk.mode.Store(silent)
	post(api.CodeNotDurable)
	disk.mode.Store(electing)
	post(api.CodeJournalFailing)
}

func TestNotDurable(t *testing.T) {
	disk := &failing{}
	a := newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: disk, Figures: []func() any{stuckFigures}}, Service: service.Config{DurableTimeout: time.Millisecond}})
	for _, headers := range [][]string{nil, {IdempotencyKey, "k"}} {
		r := a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a 5", headers...)
		a.wantProblem(r, api.CodeNotDurable, 503)
		var got api.HitsAnswer
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.Counted != 5 || got.Durable {
			t.Errorf("got %s, want it to say what was counted", r.body)
		}
		// Without a key a retry counts twice: nobody may be asked for one.
		if after := r.header.Get("Retry-After"); (after != "") != (headers != nil) {
			t.Errorf("with %v: Retry-After %q", headers, after)
		}
	}
	disk.mode.Store(refusing)
	a.wantProblem(a.get("/readyz"), api.CodeJournalFailing, 503)
	metrics := a.get("/metrics").body
	for _, want := range []string{
		"weir_not_durable_requests_total 2", "weir_journal_failing 1", "weir_journal_failures_total 3", "weir_waiting_deltas 0",
		`weir_journal_findings{kind="lossy"} 2`, `weir_journal_findings{kind="harmless"} 1`,
		`weir_journal_findings{kind="repeat"} 5`, `weir_journal_findings{kind="unfinished"} 4`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// durableStats is the journal's part of /v1/stats.
func durableStats(t *testing.T) reply {
	a, _ := newDurableAPI(t, t.TempDir())
	var stats struct {
		Durable bool
		Journal json.RawMessage
	}
	a.getInto("/v1/stats", &stats)
	if !stats.Durable {
		t.Error("the server does not say that it is durable")
	}
	return reply{body: string(stats.Journal)}
}
