package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// rig is an engine with a clock of its own, and policies at work on it.
type rig struct {
	*Live
	t      testing.TB
	engine *weir.Engine
	now    atomic.Int64 // ns since the Unix epoch
}

func newRig(t testing.TB, file string) *rig {
	t.Helper()
	r := &rig{t: t}
	r.now.Store(1_700_000_000e9)
	var err error
	r.engine, err = weir.New(weir.Config{Partitions: 4, Memory: 4 << 20, Now: func() time.Time { return time.Unix(0, r.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.engine.Close() })
	if r.Live, err = NewLive(r.engine, mustParse(t, file)); err != nil {
		t.Fatal(err)
	}
	return r
}

func mustParse(t testing.TB, file string) *Set {
	t.Helper()
	set, err := Parse("p.yaml", []byte(file))
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
	r.expect(r.take(strings.Repeat("x", weir.MaxKeyBytes+1)), "key of 513 bytes: must have 1 to 512")
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

func TestNamedAndInline(t *testing.T) {
	r := newRig(t, good+"  - {name: all, keys: \"*\", limit: 9, per: 1m}\n")
	named := func(limit, key string) string { return r.ask(Request{Key: key, Limit: limit, N: 1}) }
	r.expect(named("login", "login:x"), "ok login[login:x]=ok/4")
	r.expect(named("login", "other"), `key "other" is not one of limit login: its keys are "login:*"`)
	r.expect(named("logn", "login:x"), `no limit "logn", did you mean login?; there are login, all`)
	inline := func(name, key string, l weir.Limit) string {
		return r.ask(Request{Key: key, Limit: name, Inline: &l, N: 1})
	}
	two := weir.Limit{N: 2, Per: 90 * time.Second}
	r.expect(inline("", "k", two), "ok inline/window/1m30s[k]=ok/1")
	r.expect(inline("", "k", weir.Limit{N: 3, Per: 90 * time.Second}), "ok inline/window/1m30s[k]=ok/1") // no fresh allowance
	r.expect(inline("", "k", two), "no inline/window/1m30s[k]=no/0 by inline/window/1m30s retry 1m30s")
	r.expect(inline("mine", "k", two), "ok mine[k]=ok/1")
	r.expect(inline("login", "k", two), "limit login is a policy: leave its numbers out, or give the request's own limit another name")
	r.expect(inline("", "k", weir.Limit{N: 2}), "per of 0s: must be 1ms to 8784h0m0s")
	if got := inline("m m", "k", two); !strings.Contains(got, `"m m"`) {
		t.Error(got)
	}
	if n := r.hits("limit:inline/window/1m30s:allowed"); n != 2 {
		t.Errorf("%d hits of the inline limit, want 2", n)
	}
	if n := r.hits("limit:inline/window/1m30s:denied"); n != 1 {
		t.Errorf("%d denied hits of the inline limit, want 1", n)
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	r := newRig(t, "limits:\n  - {name: long, keys: \"l:{a}\", by: \"{a}{a}\", limit: 9, per: 1m}\n")
	many := make([]Request, weir.MaxChecks+1)
	for i := range many {
		many[i] = Request{Key: "k", Inline: &weir.Limit{N: 1, Per: time.Second}, N: 1}
	}
	for code, reqs := range map[weir.Code][]Request{
		weir.CodeInvalidKey:   {{Key: "l:" + strings.Repeat("x", 300)}},
		weir.CodeInvalidCount: many,
		weir.CodeInvalidLimit: {{Key: "k"}, {Key: "k", Limit: "none"}},
	} {
		var d Decision
		err := r.Take(reqs, &d)
		if e, ok := errors.AsType[*weir.Error](err); !ok || e.Code != code {
			t.Errorf("%v, want code %s", err, code)
		}
		if d.Allowed || len(d.Results) > 0 {
			t.Errorf("an error allows nothing: %+v", d)
		}
	}
	// A request that asks for more than there can be.
	r.expect(r.ask(Request{Key: "l:a", N: 10}), "no long[aa]=no/9 by long retry 0s")
	var d Decision
	if err := r.Peek([]Request{{Key: "l:a", N: 10}}, &d); err != nil || !d.Never {
		t.Errorf("it can never pass: %+v, %v", d, err)
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

func TestInlineNamesAreBounded(t *testing.T) {
	r := newRig(t, good)
	for i := range MaxInlineNames {
		req := Request{Key: "k", Limit: fmt.Sprint("n", i), Inline: &weir.Limit{N: 1, Per: time.Second}}
		r.expect(r.ask(req), fmt.Sprintf("ok n%d[k]=ok/1", i))
	}
	if got := r.ask(Request{Key: "k", Limit: "more", Inline: &weir.Limit{N: 1, Per: time.Second}}); !strings.Contains(got, "1000 names") {
		t.Error(got)
	}
	for i := range maxInlineMade + 5 {
		r.expect(r.ask(Request{Key: "k", Limit: "n7", Inline: &weir.Limit{N: 1 + uint64(i), Per: time.Second}}), fmt.Sprintf("ok n7[k]=ok/%d", i+1))
	}
	if len(r.inline.made) > maxInlineMade {
		t.Errorf("%d limits are kept", len(r.inline.made))
	}
}

// model is what policies mean, spelled out: a list of admission times for each name and
// key, counted anew for each request.
type model struct {
	policies []Policy
	admitted map[[2]string][]int64
}

type modelCheck struct {
	id     [2]string
	limit  weir.Limit
	shadow bool
}

func (m *model) checks(key string) (checks []modelCheck) {
	for _, p := range m.policies {
		took, ok := naive(p.Keys, key)
		if !ok {
			continue
		}
		counted := key
		if p.By != "" {
			counted = p.By
			for name, value := range took {
				counted = strings.ReplaceAll(counted, "{"+name+"}", value)
			}
		}
		c := modelCheck{[2]string{p.Name, counted}, p.Limit, p.Mode == Shadow}
		for _, o := range p.Overrides {
			if o.Key == counted {
				c.limit = o.Limit
			}
		}
		if checks = append(checks, c); p.Last {
			break
		}
	}
	return checks
}

func (m *model) take(keys []string, now int64) (allowed bool) {
	var checks []modelCheck
	for _, key := range keys {
		checks = append(checks, m.checks(key)...)
	}
	allowed = true
	fits := make([]bool, len(checks))
	asked := map[[2]string]int{}
	for i, c := range checks {
		interval := int64(c.limit.Per) * int64(c.limit.Burst) / int64(c.limit.N)
		used := asked[c.id]
		for _, at := range m.admitted[c.id] {
			if at > now-interval {
				used++
			}
		}
		fits[i] = used < int(c.limit.Burst)
		if fits[i] || !c.shadow {
			asked[c.id]++
		}
		allowed = allowed && (fits[i] || c.shadow)
	}
	for i, c := range checks {
		if allowed && fits[i] {
			m.admitted[c.id] = append(m.admitted[c.id], now)
		}
	}
	return allowed
}

func TestTakeIsAllOrNoneAsInTheModel(t *testing.T) {
	r := newRig(t, `
limits:
  - {name: user, keys: "{op}:{user}:*", by: "{user}", limit: 4, per: 8s, burst: 4, overrides: [{key: bob, limit: 8, burst: 8}, {key: eve, burst: 1}]}
  - {name: login, keys: "login:*", limit: 2, per: 4s, order: -1}
  - {name: op, keys: "{op}:*", by: "op/{op}", limit: 12, per: 6s, burst: 6}
  - {name: tried, keys: "*:1", by: "one", limit: 3, per: 6s, mode: shadow, order: -2}
  - {name: stop, keys: "get:ann:*", by: "stop", limit: 5, per: 5s, order: -1, last: true}
  - {name: total, keys: "*", by: "total", limit: 12, per: 4s}
`)
	m := model{policies: r.Set().Policies(), admitted: map[[2]string][]int64{}}
	rng := rand.New(rand.NewPCG(5, 6))
	var d Decision
	allowed := 0
	const rounds = 20_000
	for round := range rounds {
		var keys []string
		var reqs []Request
		for range 1 + rng.IntN(3) {
			key := []string{"login", "get", "put"}[rng.IntN(3)] + ":" + []string{"bob", "eve", "ann"}[rng.IntN(3)] + ":" + fmt.Sprint(rng.IntN(3))
			keys, reqs = append(keys, key), append(reqs, Request{Key: key, N: 1})
		}
		now := r.now.Add(rng.Int64N(int64(time.Second)))
		if round%500 == 0 { // the same policies again: nothing changes
			if err := r.Replace(r.Set()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Take(reqs, &d); err != nil {
			t.Fatal(err)
		}
		if want := m.take(keys, now); d.Allowed != want {
			t.Fatalf("round %d, keys %v: allowed %v, want %v: %+v", round, keys, d.Allowed, want, d.Results)
		}
		if d.Allowed {
			allowed++
		}
		if d.Denied != nil && d.Denied.Mode == Shadow {
			t.Fatal("a shadow policy denied")
		}
	}
	if allowed < rounds/20 || allowed > rounds*19/20 {
		t.Errorf("%d of %d allowed: this proves little", allowed, rounds)
	}
}

// A limit of 10 per hour is 10 per hour, whatever is loaded meanwhile.
func TestReloadGivesNoFreshAllowance(t *testing.T) {
	reloadUnderLoad(t, 10, 10, 10)
}

// reloadUnderLoad loads the same file and files with other algorithms, in turn with limits
// of ns per hour, while requests run.
func reloadUnderLoad(t *testing.T, ns ...int) {
	t.Helper()
	const file = "limits:\n  - {name: l, keys: \"k:{x}:*\", by: \"k:{x}\", limit: %d, per: 1h, burst: %d, algorithm: %s, overrides: [{key: \"k:a\", limit: 10}]}\n"
	r := newRig(t, fmt.Sprintf(file, 10, 10, "window"))
	var admitted [2]atomic.Int64
	var asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			var d Decision
			for i := worker; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := i % 2
				if err := r.Take([]Request{{Key: []string{"k:a:x", "k:b:x"}[key], N: 1}}, &d); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if d.Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	for i := range 100 {
		set := r.Set()
		if i%2 == 1 {
			n := ns[i/2%len(ns)]
			set = mustParse(t, fmt.Sprintf(file, n, n, []string{"window", "gcra", "fixed"}[i/2%3]))
		}
		before := asked.Load()
		if err := r.Replace(set); err != nil {
			t.Fatal(err)
		}
		for asked.Load() < before+20 && !t.Failed() { // requests run between any two loads
		}
	}
	close(stop)
	wg.Wait()
	for key := range admitted {
		if n := admitted[key].Load(); n != 10 {
			t.Errorf("key %d: %d admitted, want 10", key, n)
		}
	}
}

func TestReplaceThatFailsChangesNothing(t *testing.T) {
	r := newRig(t, good)
	before := r.Set()
	var failed error
	for i := 0; failed == nil && i < 20; i++ { // until the engine knows its most names
		var b strings.Builder
		b.WriteString("limits:\n")
		for n := range 1000 {
			fmt.Fprintf(&b, "  - {name: n%d.%d, keys: \"a\", limit: 1, per: 1s}\n", i, n)
		}
		next := mustParse(t, b.String())
		if failed = r.Replace(next); failed == nil {
			before = next
		}
	}
	if e, ok := errors.AsType[*weir.Error](failed); !ok || e.Code != weir.CodeOverloaded {
		t.Fatalf("%v", failed)
	}
	if r.Set() != before {
		t.Error("the Set in use has changed")
	}
}

func TestModeAndPoliciesPrint(t *testing.T) {
	got := fmt.Sprint(Enforce, Shadow, Mode(9))
	if got != "enforce shadow mode 9" {
		t.Error(got)
	}
	for i, word := range algorithms {
		if limit.Algorithm(i).String() != word {
			t.Errorf("algorithm %d is %v, not %s", i, limit.Algorithm(i), word)
		}
	}
	set := mustParse(t, good)
	set.Policies()[0].Name = "changed"
	if !slices.ContainsFunc(set.Policies(), func(p Policy) bool { return p.Name == "login" }) {
		t.Error("the list of policies is not the caller's own")
	}
}
