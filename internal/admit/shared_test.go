package admit

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// holder is a node that holds the keys that begin with f, as this one does not.
type holder struct {
	other
	here bool // they came here meanwhile
}

func (h *holder) Holds(key string) bool { return h.here || key[0] != 'f' }

// Group parts keys by their last letter.
func (h *holder) Group(key string) int { return int(key[len(key)-1]) }

func (h *holder) Decide(checks []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	return h.decide(h.Group, checks, verdicts, take)
}

// sharedRig is a node whose keys that begin with f are held by another.
func sharedRig(t *testing.T, file string) (*rig, *holder, *other) {
	t.Helper()
	r, o := clusterRig(t, file)
	h := &holder{other: other{engine: newEngine(t, r)}}
	var err error
	r.Live, err = NewClusterLive(r.engine, r.Set(), Cluster{Node: "n1", Nodes: func() int { return 3 }, Strict: o, Shared: h})
	if err != nil {
		t.Fatal(err)
	}
	return r, h, o
}

// left is what is left of a shared limit at a node.
func left(t *testing.T, e *weir.Engine, name string, n uint64, key string) uint64 {
	t.Helper()
	v, err := mustIn(t, e, limit.WhereShared, name, n).Peek(key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v.Remaining
}

func TestSharedIsDecidedByAHolder(t *testing.T) {
	r, h, _ := sharedRig(t, "limits:\n"+policyOf("s", "*", 2, ", where: shared")+policyOf("n", "fn", 1, ", where: node"))
	r.expect(r.take("k"), "ok s[k]=ok/1")
	if h.asked != 0 || left(t, h.engine, "s", 2, "k") != 2 {
		t.Errorf("a key that is held here was asked elsewhere %d times", h.asked)
	}
	// Another node has taken one.
	if !mustIn(t, h.engine, limit.WhereShared, "s", 2).Allow("f") {
		t.Fatal("denied")
	}
	r.expect(r.take("f"), "ok s[f]=ok/0")
	r.expect(r.take("f"), "no s[f]=no/0 by s retry 1m0s")
	r.expect(r.ask(Request{Key: "f"}), "ok s[f]=ok/0")
	if h.asked != 3 || left(t, r.engine, "s", 2, "f") != 2 {
		t.Errorf("asked %d times, %d left here", h.asked, left(t, r.engine, "s", 2, "f"))
	}
	// What is denied here costs no message, and takes nothing there.
	r.expect(r.take("fn"), "ok s[fn]=ok/1 n[fn]=ok/0")
	r.expect(r.take("fn"), "no s[fn]=ok/2 n[fn]=no/0 by n retry 1m0s")
	if h.asked != 4 || left(t, h.engine, "s", 2, "fn") != 1 {
		t.Errorf("asked %d times, %d left there", h.asked, left(t, h.engine, "s", 2, "fn"))
	}
	// Limits that requests bring along are shared.
	inline := Request{Key: "f", N: 1, Inline: &weir.Limit{N: 1, Per: time.Second}}
	r.expect(r.ask(inline), "ok inline/window/1s[f]=ok/0")
	r.expect(r.ask(inline), "no inline/window/1s[f]=no/0 by inline/window/1s retry 1s")
	if h.asked != 6 {
		t.Errorf("asked %d times", h.asked)
	}
	h.here = true
	r.expect(r.ask(inline), "ok inline/window/1s[f]=ok/0")
	if h.asked != 6 {
		t.Errorf("asked %d times", h.asked)
	}
}

// When no holder answers, each node decides by what it has admitted itself, and says so.
func TestSharedWithoutAHolder(t *testing.T) {
	r, h, _ := sharedRig(t, "limits:\n"+policyOf("s", "*", 2, ", where: shared")+policyOf("w", "fw", 1, ", mode: shadow, where: shared"))
	h.away = true
	r.expect(r.take("f"), "ok s[f]=ok/1")
	r.expect(r.take("f"), "ok s[f]=ok/0")
	r.expect(r.take("f"), "no s[f]=no/0 by s retry 1m0s")
	r.expect(r.take("fw"), "ok s[fw]=ok/1 w[fw]=ok/0")
	r.expect(r.take("fw"), "ok s[fw]=ok/0 w[fw]=no/0")
	// Two groups are asked before one is taken, and count once.
	r.expect(r.take("f2", "f3"), "ok s[f2]=ok/1 s[f3]=ok/1")
	if got := r.Away("s"); got != (AwayCount{Own: 7}) || r.Away("w") != (AwayCount{Own: 2}) {
		t.Errorf("%+v, %+v", got, r.Away("w"))
	}
	var d Decision
	if err := r.Peek([]Request{{Key: "f", N: 1}}, &d); err != nil || d.Allowed || d.Results[0].Away != "own" || r.Away("s").Own != 7 {
		t.Errorf("%+v, %v", d, err)
	}
	inline := Request{Key: "f", N: 1, Limit: "own", Inline: &weir.Limit{N: 1, Per: time.Second}}
	r.expect(r.ask(inline), "ok own[f]=ok/0")
	r.expect(r.ask(inline), "no own[f]=no/0 by own retry 1s")
	if got := r.Away(InlineAway); got != (AwayCount{Own: 2}) {
		t.Errorf("%+v", got)
	}
	h.away = false
	if err := r.Take([]Request{{Key: "f", N: 1}}, &d); err != nil || !d.Allowed || d.Results[0].Away != "" {
		t.Errorf("after it: %+v, %v", d.Results, err)
	}
}

// Groups of shared keys and of strict ones are apart, whatever their numbers: all are
// asked before one is taken, and what is decided here comes last.
func TestSharedBesideStrict(t *testing.T) {
	r, h, o := sharedRig(t, "limits:\n"+policyOf("s", "*", 3, ", where: shared")+policyOf("t", "ff", 1, ", where: strict")+policyOf("n", "*", 3, ", where: node"))
	r.expect(r.take("ff"), "ok s[ff]=ok/2 t[ff]=ok/0 n[ff]=ok/2")
	if h.asked != 2 || o.asked != 2 {
		t.Errorf("asked %d and %d times: want each before it took and then", h.asked, o.asked)
	}
	r.expect(r.take("ff"), "no s[ff]=ok/2 t[ff]=no/0 n[ff]=ok/2 by t retry 1m0s")
	r.expect(r.take("ff", "f1", "f2"), "no s[ff]=ok/2 t[ff]=no/0 n[ff]=ok/2 s[f1]=ok/3 n[f1]=ok/3 s[f2]=ok/3 n[f2]=ok/3 by t retry 1m0s")
	if got := left(t, h.engine, "s", 3, "ff"); got != 2 || r.StrictLost() != 0 {
		t.Errorf("%d left of s, %d lost", got, r.StrictLost())
	}
	// One group denies what it allowed a moment before.
	h.taken = func() { mustIn(t, h.engine, limit.WhereShared, "s", 3).AllowN("f2", 3) }
	r.expect(r.take("f1", "f2"), "no s[f1]=ok/2 n[f1]=ok/3 s[f2]=no/0 n[f2]=ok/3 by s retry 1m0s")
	if got := left(t, r.engine, "n", 3, "f1"); got != 3 || left(t, h.engine, "s", 3, "f1") != 2 || r.StrictLost() != 1 {
		t.Errorf("%d left of n, %d of s, %d lost", got, left(t, h.engine, "s", 3, "f1"), r.StrictLost())
	}
}

// Where all is held a decision allocates nothing.
func TestHeldSharedAllocates(t *testing.T) {
	r, h, _ := sharedRig(t, "limits:\n"+policyOf("s", "*", 60_000_000, ", where: shared"))
	reqs, d := []Request{{Key: "k", N: 1}}, Decision{}
	engine := testing.AllocsPerRun(200, func() {
		if len(d.checks) == 0 {
			if err := r.Take(reqs, &d); err != nil {
				t.Fatal(err)
			}
		}
		r.engine.TakeAll(d.checks, d.verdicts)
	})
	if got := testing.AllocsPerRun(200, func() {
		if err := r.Take(reqs, &d); err != nil {
			t.Fatal(err)
		}
	}); got > engine || h.asked > 0 || slices.Contains(d.away, "own") {
		t.Errorf("%v allocations, the engine alone %v", got, engine)
	}
}
