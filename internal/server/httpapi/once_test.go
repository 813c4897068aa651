package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// hitOnce posts text lines under an idempotency key.
func (a *testAPI) hitOnce(key, lines string) reply {
	a.Helper()
	return a.do(http.MethodPost, "/v1/hits", "text/plain", lines, IdempotencyKey, key)
}

func (a *testAPI) wantReplay(first, again reply) {
	a.Helper()
	if again.status != first.status || again.body != first.body || again.header.Get("Content-Type") != first.header.Get("Content-Type") {
		a.Errorf("first %d %s\nagain %d %s", first.status, first.body, again.status, again.body)
	}
	if first.header.Get(ReplayedHeader) != "" || again.header.Get(ReplayedHeader) != "true" {
		a.Errorf("%s: first %q, again %q", ReplayedHeader, first.header.Get(ReplayedHeader), again.header.Get(ReplayedHeader))
	}
}

func TestIdempotencyKey(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	first := a.hitOnce("k1", "a 2\n<b> 0\nb")
	a.wantReplay(first, a.hitOnce("k1", "a 2\n<b> 0\nb"))
	a.wantReplay(first, a.hitOnce(`"k1"`, "a 2\n<b> 0\nb"))
	a.wantCount("a", 2)
	a.wantProblem(a.hitOnce("k1", "a 2\n<b> 0\nc"), api.CodeKeyReused, 422)
	a.wantProblem(a.do(http.MethodPost, "/v1/hits", "application/x-ndjson", "a 2\n<b> 0\nb", IdempotencyKey, "k1"), api.CodeKeyReused, 422)
	if r := a.hitOnce("k2", "a 2\n<b> 0\nb"); r.status != 200 || r.body != first.body || r.header.Get(ReplayedHeader) != "" {
		t.Errorf("under another key: %d %s", r.status, r.body)
	}
	a.wantCount("a", 4)
	if metrics := a.get("/metrics").body; !strings.Contains(metrics, "weir_idempotent_replays_total 2\n") || !strings.Contains(metrics, "weir_rejected_lines_total 2\n") {
		t.Error("replays are not counted, or their rejected lines are counted again")
	}
}

// A request of which nothing was counted may be corrected and sent again.
func TestIdempotencyKeyOfNothing(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for _, body := range []string{"", "a 0", "a 1 1000"} {
		if r := a.hitOnce("k", body); r.status < 400 {
			t.Fatalf("%q: %d %s", body, r.status, r.body)
		}
	}
	if r := a.hitOnce("k", "a"); r.status != 200 || r.header.Get(ReplayedHeader) != "" {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// A body that breaks off after hits were counted is remembered as that failure.
func TestIdempotentFailure(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	post := func() reply {
		return a.do(http.MethodPost, "/v1/hits", "application/json", `[{"key":"a"},{"key":"b"`, IdempotencyKey, "k")
	}
	first := post()
	a.wantProblem(first, api.CodeBodyBroken, 400)
	a.wantReplay(first, post())
	a.wantCount("a", 1)
}

func TestIdempotencyKeyAcrossRestart(t *testing.T) {
	dir := t.TempDir()
	a, stop := newDurableAPI(t, dir)
	const lines = "a 2\nb 0\nb\n"
	first := a.hitOnce("k", lines)
	stop()
	a, _ = newDurableAPI(t, dir)
	a.wantReplay(first, a.hitOnce("k", lines))
	a.wantProblem(a.hitOnce("k", "a"), api.CodeKeyReused, 422)
	r := a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", lines, IdempotencyKey, "k")
	if want := strings.Replace(first.body, "}\n", `,"durable":true}`+"\n", 1); r.status != 200 || r.header.Get(ReplayedHeader) != "true" || len(r.body) != len(want) || !strings.Contains(r.body, `"durable":true`) {
		t.Errorf("durable the second time: %d %s, want %s", r.status, r.body, want)
	}
	a.wantCount("a", 2)
	a.wantCount("b", 1)
}

// Repeats that race with the first all get its answer.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	lines := strings.Repeat("a\n", 1000)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if r := a.hitOnce("k", lines); r.status != 200 || !strings.Contains(r.body, `"counted":1000,`) {
				t.Errorf("got %d %s", r.status, r.body)
			}
		})
	}
	wg.Wait()
	a.wantCount("a", 1000)
}

func TestIdempotencyKeySyntax(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.wantProblem(a.hitOnce("a b", "a"), api.CodeInvalidIdempotencyKey, 400)
}

// The answer that is kept is small, whatever was rejected.
func TestReceiptIsBounded(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	lines := "{\"key\":\"a\"}\n" + strings.Repeat("{\""+strings.Repeat(`\u0001`, 200)+"\":1}\n", 30)
	post := func() reply {
		return a.do(http.MethodPost, "/v1/hits", "application/x-ndjson", lines, IdempotencyKey, "k")
	}
	first := post()
	var got api.HitsAnswer
	if err := json.Unmarshal([]byte(first.body), &got); err != nil || len(first.body) > 8<<10+1 ||
		got.RejectedLines != 30 || len(got.Rejected) < 5 || len(got.Rejected) == api.MaxRejected {
		t.Errorf("%d bytes, %d of %d rejected lines listed: %v", len(first.body), len(got.Rejected), got.RejectedLines, err)
	}
	a.wantReplay(first, post())
}

// Large bodies with a key share a bounded memory, of which one client has three quarters,
// and give it back. Small ones need none of it.
func TestBufferedBytes(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxBodyBytes: 32 << 10, MaxBufferedBytes: 128 << 10}})
	large := strings.Repeat("a\n", 10<<10) // takes 32 KiB
	if r := a.hitOnce("k1", large); r.status != 200 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	a.wantProblem(a.hitOnce("k2", strings.Repeat("a\n", 17<<10)), api.CodeBodyTooLarge, 413)

	here, there := access.CallerAt("127.0.0.1:1"), access.CallerAt("192.0.2.1:1")
	var releases []func()
	for range 3 {
		_, release, p := a.server.ReadWhole(here, strings.NewReader(large))
		if p != nil {
			t.Fatal(p)
		}
		releases = append(releases, release)
	}
	r := a.hitOnce("k3", large)
	a.wantProblem(r, api.CodeOverloaded, 503)
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	if r := a.hitOnce("k4", "a"); r.status != 200 {
		t.Errorf("a small body: %d %s", r.status, r.body)
	}
	_, release, p := a.server.ReadWhole(there, strings.NewReader(large))
	if p != nil {
		t.Errorf("another client: %v", p)
	}
	for _, release := range append(releases, release) {
		release()
	}
	if r := a.hitOnce("k3", large); r.status != 200 {
		t.Errorf("with space again: %d %s", r.status, r.body)
	}
	if n := a.server.service.Pools.Buffered.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}
