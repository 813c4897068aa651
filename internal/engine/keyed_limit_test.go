package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// limitEngine is an engine with a clock of its own, which the test moves.
func limitEngine(t *testing.T, cfg Config) (*Engine, *atomic.Int64) {
	t.Helper()
	now := new(atomic.Int64)
	now.Store(time.Unix(1_700_000_000, 0).UnixNano())
	cfg.Now = func() time.Time { return time.Unix(0, now.Load()) }
	return newTestEngine(t, cfg), now
}

func mustLimit(t *testing.T, e *Engine, name string, l Limit) *KeyedLimit {
	t.Helper()
	kl, err := e.Limit(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return kl
}

func TestKeyedLimitIsOfEachKey(t *testing.T) {
	e, now := limitEngine(t, Config{})
	l := mustLimit(t, e, "per-user", Limit{N: 2, Per: time.Second})
	for _, key := range []string{"a", "b"} {
		if got := admissions(l, key, 5); got != 2 {
			t.Errorf("key %s: %d admissions, want 2", key, got)
		}
	}
	v, err := l.Peek("a", 1)
	if err != nil || v.Allowed || v.RetryAfter != time.Second || v.Remaining != 0 {
		t.Errorf("Peek of a full key: %+v, %v", v, err)
	}
	now.Add(int64(time.Second))
	if v, err := l.Take("a", 2); err != nil || !v.Allowed || v.Remaining != 0 {
		t.Errorf("a second later: %+v, %v", v, err)
	}
	if v, _ := l.Take("a", 3); !v.Never {
		t.Errorf("more than the burst: %+v, want never", v)
	}
}

func TestLimitRefusesBadInput(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	var weirErr *Error
	for _, name := range []string{"", "a b", "a:b", "ü", string(make([]byte, 65))} {
		if _, err := e.Limit(name, Limit{N: 1, Per: time.Second}); !errors.As(err, &weirErr) || weirErr.Code != api.CodeInvalidLimit {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := e.Limit("x", Limit{Per: time.Second}); !errors.As(err, &weirErr) || weirErr.Code != api.CodeInvalidLimit {
		t.Errorf("n of 0: %v", err)
	}
	l := mustLimit(t, e, "x", Limit{N: 1, Per: time.Second})
	if _, err := l.Take("", 1); !errors.As(err, &weirErr) || weirErr.Code != api.CodeInvalidKey {
		t.Errorf("empty key: %v", err)
	}
	if l.Allow("") {
		t.Error("an empty key was admitted")
	}
	other, _ := limitEngine(t, Config{})
	foreign := mustLimit(t, other, "x", Limit{N: 1, Per: time.Second})
	for _, c := range []Check{{Key: "k", N: 1}, {Limit: foreign, Key: "k", N: 1}} {
		if _, err := e.Limits().TakeAll([]Check{c}, make([]Verdict, 1)); !errors.As(err, &weirErr) || weirErr.Code != api.CodeInvalidLimit {
			t.Errorf("a limit that is not this engine's: %v", err)
		}
	}
	if _, err := e.Limits().TakeAll(make([]Check, MaxChecks+1), make([]Verdict, MaxChecks+1)); !errors.As(err, &weirErr) || weirErr.Code != api.CodeInvalidCount {
		t.Errorf("too many checks: %v", err)
	}
}

// A limit that is set again, under its name, by the same or another handle, gives
// no fresh allowance.
func TestLimitNamedAgainKeepsItsState(t *testing.T) {
	e, now := limitEngine(t, Config{})
	l := mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour})
	for range 5 {
		l.Allow("k")
	}
	if err := l.SetLimit(Limit{N: 5, Per: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if l.Allow("k") || mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour}).Allow("k") {
		t.Error("a limit of the same name and numbers gave a fresh allowance")
	}
	raised := mustLimit(t, e, "x", Limit{N: 7, Per: time.Hour})
	if got := admissions(raised, "k", 10); got != 2 {
		t.Errorf("raised from 5 to 7 it admitted %d, want 2", got)
	}
	if l.Allow("k") {
		t.Error("the old handle admits again")
	}
	now.Add(int64(3 * time.Hour))
	if got := admissions(raised, "k", 10); got != 7 {
		t.Errorf("once all is over it admitted %d, want 7", got)
	}
}

func admissions(l *KeyedLimit, key string, tries int) (n int) {
	for range tries {
		if l.Allow(key) {
			n++
		}
	}
	return n
}

func TestTakeAllOrNone(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	user := mustLimit(t, e, "user", Limit{N: 10, Per: time.Hour})
	tenant := mustLimit(t, e, "tenant", Limit{N: 15, Per: time.Hour})
	ask := func(name string) (bool, []Verdict) {
		verdicts := make([]Verdict, 2)
		ok, err := e.Limits().TakeAll([]Check{{Limit: user, Key: name, N: 1}, {Limit: tenant, Key: "acme", N: 1}}, verdicts)
		if err != nil {
			t.Fatal(err)
		}
		return ok, verdicts
	}
	for range 10 {
		if ok, _ := ask("ann"); !ok {
			t.Fatal("denied below both limits")
		}
	}
	if ok, v := ask("ann"); ok || v[0].Allowed || !v[1].Allowed || v[1].Remaining != 5 {
		t.Errorf("over the user's limit: %v %+v: want the tenant's to say yes and lose nothing", ok, v)
	}
	for range 5 {
		ask("bob")
	}
	if ok, v := ask("bob"); ok || !v[0].Allowed || v[0].Remaining != 5 || v[1].Allowed {
		t.Errorf("over the tenant's limit: %v %+v: want the user's to lose nothing", ok, v)
	}
}

// The same key and limit twice in a request take twice, and are refused together.
func TestTakeAllAddsEqualChecksUp(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	l := mustLimit(t, e, "x", Limit{N: 3, Per: time.Hour})
	verdicts := make([]Verdict, 2)
	for want := range 2 {
		ok, err := e.Limits().TakeAll([]Check{{Limit: l, Key: "k", N: 1}, {Limit: l, Key: "k", N: 1}}, verdicts)
		if err != nil || ok != (want == 0) {
			t.Errorf("round %d of two at a time under a limit of 3: %v, %v", want, ok, err)
		}
	}
	if v, _ := l.Peek("k", 0); v.Remaining != 1 {
		t.Errorf("remaining %d, want 1", v.Remaining)
	}
}

func TestShadowCheckNeverDenies(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	tight := mustLimit(t, e, "tight", Limit{N: 1, Per: time.Hour})
	wide := mustLimit(t, e, "wide", Limit{N: 3, Per: time.Hour})
	verdicts := make([]Verdict, 2)
	for i := range 4 {
		ok, err := e.Limits().TakeAll([]Check{{Limit: tight, Key: "k", N: 1, Shadow: true}, {Limit: wide, Key: "k", N: 1}}, verdicts)
		if err != nil || ok != (i < 3) || verdicts[0].Allowed != (i == 0) {
			t.Errorf("request %d: %v %v %+v", i, ok, err, verdicts)
		}
	}
}

// Many goroutines ask for overlapping sets of limits: none is ever exceeded, and
// what is left is what was not admitted.
func TestTakeAllUnderConcurrency(t *testing.T) {
	e := newTestEngine(t, Config{Partitions: 4})
	const users, perUser, overall = 8, 300, 1500
	user := mustLimit(t, e, "user", Limit{N: perUser, Per: 24 * time.Hour})
	all := mustLimit(t, e, "all", Limit{N: overall, Per: 24 * time.Hour})
	var admitted [users]atomic.Uint64
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			verdicts := make([]Verdict, 2)
			for range 1000 {
				u := random.IntN(users)
				checks := []Check{{Limit: user, Key: fmt.Sprint("u", u), N: 1}, {Limit: all, Key: "all", N: 1}}
				if g%2 == 0 {
					slices.Reverse(checks)
				}
				ok, err := e.Limits().TakeAll(checks, verdicts)
				if err != nil {
					t.Error(err)
				}
				if ok {
					admitted[u].Add(1)
				}
			}
		})
	}
	wait.Wait()
	total := uint64(0)
	for u := range users {
		n := admitted[u].Load()
		if total += n; n > perUser {
			t.Errorf("user %d: %d admitted", u, n)
		}
		if v, err := user.Peek(fmt.Sprint("u", u), 0); err != nil || v.Remaining != perUser-n {
			t.Errorf("user %d: remaining %d after %d admitted, %v", u, v.Remaining, n, err)
		}
	}
	if v, _ := all.Peek("all", 0); total > overall || v.Remaining != overall-total {
		t.Errorf("all: %d admitted, remaining %d", total, v.Remaining)
	}
}

// A flood of new keys is refused once memory is full, and the keys that were
// there keep what they have used.
func TestFloodForgetsNoLimitInUse(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 2, LimitMemory: 64 << 10})
	l := mustLimit(t, e, "x", Limit{N: 1, Per: time.Hour})
	victims := 100
	for i := range victims {
		if !l.Allow(fmt.Sprint("victim", i)) {
			t.Fatal("denied at first")
		}
	}
	refused := 0
	for i := range 5000 {
		if _, err := l.Take(fmt.Sprint("flood", i), 1); err != nil {
			refused++
		}
		if i%7 == 0 && l.Allow(fmt.Sprint("victim", i%victims)) {
			t.Fatalf("victim %d has a fresh allowance after %d keys more", i%victims, i)
		}
	}
	stats := e.Stats()
	if refused == 0 || stats.LimitRefused != uint64(refused) || stats.LimitBytes > 66<<10 {
		t.Errorf("refused %d, stats %d, bytes %d", refused, stats.LimitRefused, stats.LimitBytes)
	}
	now.Add(int64(time.Hour))
	for i := range 100 {
		if _, err := l.Take(fmt.Sprint("later", i), 1); err != nil {
			t.Fatalf("once the limits are no longer in use: %v", err)
		}
	}
	for i := range e.cfg.Partitions {
		e.limits.Expire(i)
	}
	if got := e.Stats().LimitStates; got != 100 {
		t.Errorf("%d states after the janitor, want the 100 in use", got)
	}
}

func TestKeysNamesTheFullest(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	l := mustLimit(t, e, "x", Limit{N: 10, Per: time.Hour})
	other := mustLimit(t, e, "other", Limit{N: 10, Per: time.Hour})
	for i := range 20 {
		l.AllowN(fmt.Sprintf("k%02d", i), uint64(i%11))
		other.Allow(fmt.Sprintf("k%02d", i))
	}
	uses := l.Keys(3)
	if len(uses) != 3 || uses[0].Key != "k10" || uses[0].Share() != 1 || uses[1].Key != "k09" || uses[2].Used != 8 {
		t.Errorf("%+v", uses)
	}
	if got := len(l.Keys(100)); got != 18 { // two took nothing
		t.Errorf("%d keys in all, want 18", got)
	}
}

// A key is listed under the limit in force, before it is asked for again.
func TestKeysAfterAChange(t *testing.T) {
	e, _ := limitEngine(t, Config{})
	l := mustLimit(t, e, "x", Limit{N: 10, Per: time.Hour})
	l.AllowN("k", 4)
	l.AllowN("own", 4)
	if err := l.SetLimit(Limit{N: 8, Per: time.Hour}); err != nil {
		t.Fatal(err)
	}
	uses, err := l.KeysUnder(2, func(key string) (Limit, bool) { return Limit{N: 16, Per: time.Hour}, key == "own" })
	if err != nil || len(uses) != 2 || uses[0].Key != "k" || uses[0].Limit.Burst != 8 || uses[0].Used != 4 || uses[1].Limit.Burst != 16 || uses[1].Remaining != 12 {
		t.Errorf("%+v, %v", uses, err)
	}
	_, err = l.KeysUnder(2, func(key string) (Limit, bool) { return Limit{}, key == "own" })
	wantCode(t, err, api.CodeInvalidLimit)
}

// A clock that runs back neither admits too many nor locks out.
func TestKeyedLimitWhenTheClockRunsBack(t *testing.T) {
	for _, algorithm := range []Limit{{N: 3, Per: time.Second}, {N: 100, Per: time.Second}, {N: 3, Per: time.Second, Algorithm: 2}} {
		e, now := limitEngine(t, Config{})
		l := mustLimit(t, e, "x", algorithm)
		admitted := admissions(l, "k", 200)
		now.Add(-int64(time.Hour))
		if more := admissions(l, "k", 200); more != 0 || admitted != int(algorithm.N) {
			t.Errorf("%+v: %d, then %d with the clock an hour back", algorithm, admitted, more)
		}
		now.Add(int64(time.Hour + 2*time.Second))
		if again := admissions(l, "k", 200); again != int(algorithm.N) {
			t.Errorf("%+v: %d once the clock is right again", algorithm, again)
		}
	}
}
