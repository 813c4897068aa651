package admit

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// rig is an engine with a clock of its own, and policies at work on it.
type rig struct {
	*Live
	t      testing.TB
	engine *engine.Engine
	now    atomic.Int64 // ns since the Unix epoch
}

func newRig(t testing.TB, file string) *rig {
	t.Helper()
	r := &rig{t: t}
	r.now.Store(1_700_000_000e9)
	var err error
	r.engine, err = engine.New(engine.Config{Partitions: 4, Memory: 4 << 20, Now: func() time.Time { return time.Unix(0, r.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.engine.Close() })
	if r.Live, err = NewLive(r.engine, mustParse(t, file)); err != nil {
		t.Fatal(err)
	}
	return r
}

// liveOn is policies at work on an engine of their own.
func liveOn(t testing.TB, cfg engine.Config, file string) *Live {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l, err := NewLive(e, mustParse(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// good is a file of one policy.
const good = "limits:\n  - name: login\n    keys: \"login:*\"\n    limit: 5\n    per: 1m\n"

func mustParse(t testing.TB, file string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("p.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// take asks for one of each key, and writes the decision down:
// `denied a:x b:SHADOW -> a` is all results, and who denied.
func (r *rig) take(keys ...string) string {
	r.t.Helper()
	var reqs []Request
	for _, key := range keys {
		reqs = append(reqs, Request{Key: key, N: 1})
	}
	return r.ask(reqs...)
}

func (r *rig) ask(reqs ...Request) string {
	r.t.Helper()
	var d Decision
	if err := r.Take(reqs, &d); err != nil {
		return err.Error()
	}
	word := map[bool]string{true: "ok", false: "no"}
	out := []string{word[d.Allowed]}
	if d.Unmatched {
		out = append(out, "unmatched")
	}
	for _, res := range d.Results {
		out = append(out, fmt.Sprintf("%s[%s]=%s/%d", res.Name, res.Key, word[res.Allowed], res.Remaining))
	}
	if d.Allowed != (d.Denied == nil) {
		r.t.Fatalf("allowed %v, denied by %v", d.Allowed, d.Denied)
	}
	if d.Denied != nil {
		out = append(out, "by "+d.Denied.Name, "retry "+d.RetryAfter.String())
	}
	return strings.Join(out, " ")
}

func (r *rig) hits(key string) uint64 {
	r.t.Helper()
	c, err := r.engine.Count(key, 300*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Estimate
}

func (r *rig) expect(got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestTakeInOrderUpToLast(t *testing.T) {
	r := newRig(t, `
limits:
  - {name: everything, keys: "*", limit: 100, per: 1m, order: 9}
  - {name: login, keys: "login:{user}:*", by: "login:{user}", limit: 2, per: 1m, overrides: [{key: "login:admin", limit: 3}]}
  - {name: free, keys: "free:*", limit: 10, per: 1m, order: -1, last: true}
`)
	r.expect(r.take("login:bob:1.1.1.1"), "ok login[login:bob]=ok/1 everything[login:bob:1.1.1.1]=ok/99")
	r.expect(r.take("login:bob:2.2.2.2"), "ok login[login:bob]=ok/0 everything[login:bob:2.2.2.2]=ok/99")
	r.expect(r.take("login:bob:3.3.3.3"), "no login[login:bob]=no/0 everything[login:bob:3.3.3.3]=ok/100 by login retry 1m0s")
	for left := 2; left >= 0; left-- {
		r.expect(r.take("login:admin:x"), fmt.Sprintf("ok login[login:admin]=ok/%d everything[login:admin:x]=ok/%d", left, 97+left))
	}
	r.expect(r.take("login:admin:x"), "no login[login:admin]=no/0 everything[login:admin:x]=ok/97 by login retry 1m0s")
	r.expect(r.take("free:x"), "ok free[free:x]=ok/9")
	r.expect(r.take("free:x", "other"), "ok free[free:x]=ok/8 everything[other]=ok/99")
	for key, want := range map[string]uint64{"limit:login:allowed": 5, "limit:login:denied": 2, "limit:everything:allowed": 6, "limit:everything:denied": 0, "limit:free:allowed": 2} {
		if got := r.hits(key); got != want {
			t.Errorf("%s: %d hits, want %d", key, got, want)
		}
	}
	if kl, ok := r.Limit("login"); !ok || len(kl.Keys(10)) != 2 {
		t.Error("the keys of login are bob and admin")
	}
	if _, ok := r.Limit("logout"); ok {
		t.Error("there is no limit logout")
	}
}

func TestUnmatched(t *testing.T) {
	r := newRig(t, good)
	r.expect(r.take("other"), "ok unmatched")
	r.expect(r.take("other", "login:x"), "ok login[login:x]=ok/4")
	r.expect(r.ask(), "ok unmatched")
	r.expect(r.take(""), "key of 0 bytes: must have 1 to 512")
	r.expect(r.take(strings.Repeat("x", engine.MaxKeyBytes+1)), "key of 513 bytes: must have 1 to 512")
	none, err := NewLive(r.engine, nil)
	if err != nil || none.Set() == nil {
		t.Fatal("no policies are a Set too", err)
	}
	var d Decision
	if err := none.Take([]Request{{Key: "login:x", N: 1}}, &d); err != nil || !d.Unmatched {
		t.Error("no policies match nothing", err)
	}
}

func TestShadowNeverDenies(t *testing.T) {
	r := newRig(t, `
limits:
  - {name: try, keys: "a:*", limit: 1, per: 1m, mode: shadow}
  - {name: real, keys: "a:*", limit: 2, per: 1m}
`)
	r.expect(r.take("a:x"), "ok try[a:x]=ok/0 real[a:x]=ok/1")
	r.expect(r.take("a:x"), "ok try[a:x]=no/0 real[a:x]=ok/0")
	r.expect(r.take("a:x"), "no try[a:x]=no/0 real[a:x]=no/0 by real retry 1m0s")
	r.expect(r.take("a:y", "a:x"), "no try[a:y]=ok/1 real[a:y]=ok/2 try[a:x]=no/0 real[a:x]=no/0 by real retry 1m0s")
	r.expect(r.take("a:y"), "ok try[a:y]=ok/0 real[a:y]=ok/1") // none of it was taken
	for key, want := range map[string]uint64{"limit:try:allowed": 2, "limit:try:shadow_denied": 3, "limit:try:denied": 0, "limit:real:allowed": 3, "limit:real:denied": 2} {
		if got := r.hits(key); got != want {
			t.Errorf("%s: %d hits, want %d", key, got, want)
		}
	}
}

func TestPeekTakesNothing(t *testing.T) {
	r := newRig(t, good)
	var d Decision
	for range 20 {
		if err := r.Peek([]Request{{Key: "login:x", N: 1}}, &d); err != nil || !d.Allowed || d.Results[0].Remaining != 5 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	r.expect(r.ask(Request{Key: "login:x"}), "ok login[login:x]=ok/5") // n = 0 asks only
	if n := r.hits("limit:login:allowed"); n != 0 {
		t.Errorf("%d hits", n)
	}
}

func TestHitsThatFailChangeNoDecision(t *testing.T) {
	r := newRig(t, good)
	r.engine.Close() // refuses hits from now on
	r.expect(r.take("login:x"), "ok login[login:x]=ok/4")
	if r.HitsFailed() != 1 {
		t.Errorf("%d hits failed, want 1", r.HitsFailed())
	}
}
