package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// other is the owner of all keys: an engine of its own.
type other struct {
	engine *engine.Engine
	away   bool
	leases bool       // this node decides leased limits within what it was granted, also while the owner is away
	mu     sync.Mutex // groups are asked at the same time
	asked  int
	taken  func() // called after each take, as another node's requests come between
}

// Group parts keys by their first letter.
func (o *other) Group(key string) int { return int(key[0]) }

// Take decides nothing: this node has no part of any limit.
func (o *other) Take([]engine.Check, []engine.Verdict) (allowed, decided bool) { return false, false }

func (o *other) Decide(_ context.Context, checks []engine.Check, verdicts []engine.Verdict, take bool) (allowed, answered bool, err error) {
	return o.decide(o.Group, checks, verdicts, take)
}

func (o *other) Change(c engine.Change, check engine.Check) (made engine.Changed, answered bool, err error) {
	if o.away {
		return made, false, nil
	}
	there, err := o.engine.Limits().LimitOfRecord(check.Limit.Record())
	if err == nil {
		made, err = c.Make(there, check.Key, check.N)
	}
	return made, true, err
}

func (o *other) decide(group func(key string) int, checks []engine.Check, verdicts []engine.Verdict, take bool) (allowed, answered bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	strict := func(c engine.Check) bool { return c.Limit.Where() == limit.WhereStrict }
	if o.away && (!o.leases || slices.ContainsFunc(checks, strict)) {
		return false, false, nil
	}
	there := make([]engine.Check, len(checks))
	for i, c := range checks {
		if group(c.Key) != group(checks[0].Key) {
			return false, false, fmt.Errorf("keys of two groups: %q and %q", checks[0].Key, c.Key)
		}
		there[i] = c
		if there[i].Limit, err = o.engine.Limits().LimitOfRecord(c.Limit.Record()); err != nil {
			return false, false, err
		}
	}
	if !take {
		allowed, err = o.engine.Limits().PeekAll(there, verdicts)
		return allowed, true, err
	}
	allowed, err = o.engine.Limits().TakeAll(there, verdicts)
	if o.taken != nil {
		o.taken()
	}
	return allowed, true, err
}

// clusterRig is a node of three, with strict limits decided by another.
func clusterRig(t *testing.T, file string) (*rig, *other) {
	t.Helper()
	r := &rig{t: t}
	r.now.Store(1_700_000_000e9)
	r.engine = newEngine(t, r)
	o := &other{engine: newEngine(t, r)}
	var err error
	r.Live, err = NewClusterLive(r.engine, mustParse(t, file), Cluster{Node: "n1", Owners: o})
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// newEngine is a node's, with the clock of r.
func newEngine(t *testing.T, r *rig) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Partitions: 4, Gather: true, Now: func() time.Time { return time.Unix(0, r.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func policyOf(name, keys string, n int, more string) string {
	return fmt.Sprintf("  - {name: %s, keys: %q, limit: %d, per: 1m%s}\n", name, keys, n, more)
}

func TestWhereAndAway(t *testing.T) {
	set := mustParse(t, "limits:\n"+policyOf("a", "a", 1, "")+policyOf("b", "b", 1, ", where: node")+
		policyOf("c", "c", 1, ", where: strict")+policyOf("d", "d", 1, ", where: strict, away: open")+policyOf("e", "e", 1, ", where: shared"))
	var got []string
	for _, p := range set.Policies() {
		got = append(got, p.Where.String()+" "+p.Away.String())
	}
	if want := "leased closed, node closed, strict closed, strict open, leased closed"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	for text, want := range map[string]string{
		good + "    where: here\n":                   `p.yaml:6: where: "here"; there are leased, node, strict, global`,
		good + "    where: strict\n    away: ajar\n": `p.yaml:7: away: "ajar"; there are closed, open`,
		good + "    away: open\n    where: node\n":   "p.yaml:6: away: it is for strict and leased limits, whose one node that decides may be away: remove it, or the `where`",
	} {
		if _, err := policy.Parse("p.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Alone, a node decides every policy itself.
func TestStrictAlone(t *testing.T) {
	r := newRig(t, "limits:\n"+policyOf("s", "k*", 1, ", where: strict")+policyOf("n", "k*", 5, ", where: node"))
	for _, want := range []string{"ok s[k]=ok/0 n[k]=ok/4", "no s[k]=no/0 n[k]=ok/4 by s retry 1m0s"} {
		if got := r.take("k"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestStrictIsDecidedElsewhere(t *testing.T) {
	r, o := clusterRig(t, "limits:\n"+policyOf("s", "k*", 2, ", where: strict")+policyOf("n", "k*", 3, ", where: node"))
	// Another node has taken one.
	there, err := o.engine.Limits().LimitIn("n2", limit.WhereStrict, "s", engine.Limit{N: 2, Per: time.Minute})
	if err != nil || !there.Allow("k") {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ok s[k]=ok/0 n[k]=ok/2",
		"no s[k]=no/0 n[k]=ok/3 by s retry 1m0s", // nothing was taken of n
	} {
		if got := r.take("k"); !strings.HasPrefix(got, want[:15]) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := r.take("k2", "k2", "k2"); got[:2] != "no" || o.asked != 3 {
		t.Errorf("three of two: %s, asked %d times", got, o.asked)
	}
	// What the limits here deny is not asked elsewhere, and takes nothing there.
	node := "limits:\n" + policyOf("s", "k*", 9, ", where: strict") + policyOf("n", "k*", 1, ", where: node")
	r, o = clusterRig(t, node)
	for _, want := range []string{"ok", "no", "no"} {
		if got := r.take("k"); got[:2] != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if o.asked != 1 {
		t.Errorf("asked %d times, want once", o.asked)
	}
	if v, err := mustIn(t, o.engine, limit.WhereStrict, "s", 9).Peek("k", 0); err != nil || v.Remaining != 8 {
		t.Errorf("there %+v, %v: one is taken", v, err)
	}
}

func mustIn(t *testing.T, e *engine.Engine, where limit.Where, name string, n uint64) *engine.KeyedLimit {
	t.Helper()
	kl, err := e.Limits().LimitIn("n1", where, name, engine.Limit{N: n, Per: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return kl
}

func TestAway(t *testing.T) {
	for _, c := range []struct {
		more string
		want []string
		n    AwayCount
	}{
		{"", []string{"no s[k]=no/0 by s retry 1s", "no s[k]=no/0 by s retry 1s"}, AwayCount{Closed: 2}},
		{", mode: shadow", []string{"ok s[k]=no/0", "ok s[k]=no/0"}, AwayCount{Closed: 2}},
		{", away: open", []string{"ok s[k]=ok/0", "ok s[k]=ok/0"}, AwayCount{Open: 2}},
	} {
		r, o := clusterRig(t, "limits:\n"+policyOf("s", "k*", 8, c.more+", where: strict"))
		o.away = true
		for i, want := range c.want {
			if got := r.take("k"); got != want {
				t.Errorf("%s %d: %s, want %s", c.more, i, got, want)
			}
		}
		if got := r.Away("s"); got != c.n {
			t.Errorf("%s: %+v, want %+v", c.more, got, c.n)
		}
		var d Decision
		if err := r.Peek([]Request{{Key: "k", N: 1}}, &d); err != nil || d.Results[0].Away == "" || r.Away("s") != c.n {
			t.Errorf("%s: peek: %+v, %v", c.more, d.Results, err)
		}
		o.away = false
		if err := r.Take([]Request{{Key: "k", N: 1}}, &d); err != nil || !d.Allowed || d.Results[0].Away != "" {
			t.Errorf("%s: after it: %+v, %v", c.more, d.Results, err)
		}
	}
}

// Strict limits of two groups: if one denies nothing is taken of the other, unless it
// changed between the question and the taking.
func TestStrictOfTwoGroups(t *testing.T) {
	file := "limits:\n" + policyOf("a", "a*", 5, ", where: strict") + policyOf("b", "b*", 1, ", where: strict")
	r, o := clusterRig(t, file)
	left := func(name string, n uint64, key string) uint64 {
		v, err := mustIn(t, o.engine, limit.WhereStrict, name, n).Peek(key, 0)
		if err != nil {
			t.Fatal(err)
		}
		return v.Remaining
	}
	for _, want := range []string{"ok", "no", "no"} {
		if got := r.take("a", "b"); got[:2] != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := left("a", 5, "a"); got != 4 || r.StrictLost() != 0 {
		t.Errorf("%d left of a, %d lost: one is taken", got, r.StrictLost())
	}
	o.taken = func() { mustIn(t, o.engine, limit.WhereStrict, "b", 1).Allow("b2") }
	if got := r.take("a", "b2"); got[:2] != "no" || left("a", 5, "a") != 3 || r.StrictLost() != 1 {
		t.Errorf("%s, %d left of a, %d lost", got, left("a", 5, "a"), r.StrictLost())
	}
}

// A node's limit counts that node's requests alone, any other those of all nodes.
func TestNodeLimitsAreApart(t *testing.T) {
	r, o := clusterRig(t, "limits:\n"+policyOf("n", "k*", 3, ", where: node")+policyOf("s", "k*", 3, ""))
	if got := r.take("k"); got != "ok n[k]=ok/2 s[k]=ok/2" {
		t.Error(got)
	}
	two, err := NewClusterLive(r.engine, r.Set(), Cluster{Node: "n2", Owners: o})
	if err != nil {
		t.Fatal(err)
	}
	r.Live = two
	if got := r.take("k"); got != "ok n[k]=ok/2 s[k]=ok/1" {
		t.Error(got)
	}
}

// A strict limit whose owner is silent is passed over where its policy says so. A leased one of the same request counts all the same, within
// what this node was granted.
func TestLeasesCountWithoutTheOwner(t *testing.T) {
	r, o := clusterRig(t, "limits:\n"+policyOf("s", "k*", 9, ", where: strict, away: open")+policyOf("l", "k*", 2, ""))
	o.away, o.leases = true, true
	for n, want := range []bool{true, true, false} {
		var d Decision
		if err := r.Take([]Request{{Key: "k", N: 1}}, &d); err != nil || d.Allowed != want || d.Results[0].Away != "open" || d.Results[1].Away != "" {
			t.Errorf("request %d: %v, %+v, %v", n+1, d.Allowed, d.Results, err)
		}
	}
	r, o = clusterRig(t, "limits:\n"+policyOf("s", "k*", 9, ", where: strict")+policyOf("l", "k*", 2, ""))
	o.away, o.leases = true, true
	for range 3 { // nothing is taken of it if the other denies
		var d Decision
		if err := r.Take([]Request{{Key: "k", N: 1}}, &d); err != nil || d.Allowed || d.Undecided() == nil || mustIn(t, o.engine, limit.WhereLeased, "l", 2).InUse() {
			t.Errorf("%+v, %v", d.Results, err)
		}
	}
}

// Limits that requests bring along, and those of listeners, are decided by the owner of the key, like leased policies: a quota by the
// calendar too. While the owner is unreachable nothing is decided.
func TestLimitsOfNoPolicyAreLeased(t *testing.T) {
	r, o := clusterRig(t, "limits: []\n")
	inline := Request{Key: "k", N: 1, Inline: &engine.Limit{N: 2, Per: time.Minute}}
	monthly := Request{Key: "k", N: 1, Limit: "monthly", Inline: &engine.Limit{N: 1, Calendar: limit.Calendar{Unit: limit.Month}}}
	r.expect(r.ask(inline), "ok inline/window/1m[k]=ok/1")
	r.expect(r.ask(monthly), "ok monthly[k]=ok/0")
	listener, err := r.Prepare("rls/edge/ip", engine.Limit{N: 2, Per: time.Minute}, policy.Enforce)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(r.ask(Request{Key: "k", N: 1, Prepared: listener}), "ok rls/edge/ip[k]=ok/1")
	if o.asked != 3 || mustIn(t, r.engine, limit.WhereLeased, "rls/edge/ip", 2).InUse() {
		t.Errorf("the owner was asked %d times", o.asked)
	}
	if made, ok, err := r.Reset("inline/window/1m", "k"); !ok || err != nil || !made.Was || made.Remaining != 2 {
		t.Errorf("reset: %+v, %v, %v", made, ok, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if was, err := r.ResetInline(over, "k"); was != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("reset of all of a request that has ended: %d, %v", was, err)
	}
	if was, err := r.ResetInline(t.Context(), "k"); was != 1 || err != nil {
		t.Errorf("reset of all: %d, %v", was, err)
	}
	o.away = true
	for _, req := range []Request{inline, monthly, {Key: "k", N: 1, Prepared: listener}} {
		var d Decision
		if err := r.Take([]Request{req}, &d); err != nil || d.Allowed || d.Undecided() == nil {
			t.Errorf("without the owner: %+v, %v", d.Results, err)
		}
	}
	if got := r.Away(InlineAway); got.Closed != 2 {
		t.Errorf("%+v", got)
	}
}
