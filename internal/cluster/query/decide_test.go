package query

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/limit"
)

// shared is a shared limit of n per hour at a node.
func (n *node) shared(t testing.TB, name string, burst uint64) *weir.KeyedLimit {
	t.Helper()
	kl, err := side.Of(n.engine).LimitIn(n.id, limit.WhereShared, name, weir.Limit{N: burst, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return kl
}

// left is what is left of a shared limit of 10 by what a node knows itself.
func (n *node) left(t testing.TB, key string) uint64 {
	t.Helper()
	v, err := n.shared(t, "l", 10).Peek(key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v.Remaining
}

// take asks for one of a limit as policies do: here if the key is held.
func (n *node) take(t testing.TB, kl *weir.KeyedLimit, key string) (allowed, answered bool) {
	t.Helper()
	checks, verdicts := []weir.Check{{Limit: kl, Key: key, N: 1}}, make([]weir.Verdict, 1)
	var err error
	if n.Holds(key) {
		answered = true
		allowed, err = n.engine.TakeAll(checks, verdicts)
	} else {
		allowed, answered, err = n.Decide(checks, verdicts, true)
	}
	if err != nil {
		t.Fatalf("%s: %v", n.id, err)
	}
	if answered && allowed != verdicts[0].Allowed {
		t.Fatalf("%s: allowed %v, %+v", n.id, allowed, verdicts[0])
	}
	return allowed, answered
}

// Whatever nodes are asked for a key, all at once, no more than its holders decide: the
// burst of each, and with one holder never more than the burst.
func TestHoldersDecide(t *testing.T) {
	for copies := 1; copies <= 3; copies++ {
		t.Run(fmt.Sprint(copies), func(t *testing.T) {
			t.Parallel()
			const burst, callers, keys = 10, 4, 12
			f := newFleet(t, 3, copies, func(cfg *Config) { cfg.DecideWithin = transporttest.Patience })
			var admitted [keys]atomic.Uint64
			var asking sync.WaitGroup
			for _, n := range f.nodes {
				kl := n.shared(t, "l", burst)
				for range callers {
					asking.Go(func() {
						for i := range 2 * burst * keys {
							allowed, answered := n.take(t, kl, fmt.Sprint("k", i%keys))
							if !answered {
								t.Errorf("%s: nobody decided", n.id)
							}
							if allowed {
								admitted[i%keys].Add(1)
							}
						}
					})
				}
			}
			asking.Wait()
			for i := range admitted {
				if got, most := admitted[i].Load(), uint64(copies*burst); got < burst || got > most {
					t.Errorf("k%d: %d were admitted: want %d to %d", i, got, burst, most)
				}
			}
			for _, n := range f.nodes {
				if s := n.Stats(); s.Undecided != 0 || s.Asking != 0 || copies < 3 && s.Decisions == 0 || copies == 3 && s.Decisions != 0 {
					t.Errorf("%s: %+v", n.id, s)
				}
			}
		})
	}
}

// All who do not hold a key ask the same holder first, so that it knows of all.
func TestOneHolderIsAskedFirst(t *testing.T) {
	f := newFleet(t, 4, 2, nil)
	for p := range parts {
		key, first := f.keyOf(p, 0), f.nodes[0].deciders(p)
		for _, n := range f.nodes {
			if n.Holds(key) {
				continue
			}
			if got := n.deciders(p); fmt.Sprint(got) != fmt.Sprint(first) && !f.nodes[0].Holds(key) {
				t.Errorf("%s asks %v, another %v", n.id, got, first)
			}
			n.take(t, n.shared(t, "l", 10), key)
		}
		took := 0
		for _, n := range f.nodes {
			if n.left(t, key) == 8 {
				took++
			}
		}
		if took != 1 {
			t.Errorf("partition %d: %d nodes have taken both", p, took)
		}
	}
}

// A check that only asks, a shadow, a denial and an error come back as the holder said.
func TestDecisionsComeBack(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, far := f.nodes[0], f.keyOf(1, 0)
	kl, tight := n.shared(t, "l", 10), n.shared(t, "tight", 1)
	verdicts := make([]weir.Verdict, 2)
	two := []weir.Check{{Limit: kl, Key: far, N: 3}, {Limit: tight, Key: far, N: 2, Shadow: true}}
	allowed, answered, err := n.Decide(two, verdicts, false)
	if !allowed || !answered || err != nil || !verdicts[0].Allowed || !verdicts[1].Never || f.nodes[1].left(t, far) != 10 {
		t.Errorf("%v %v %v %+v", allowed, answered, err, verdicts)
	}
	allowed, answered, err = n.Decide(two, verdicts, true)
	if !allowed || !answered || err != nil || verdicts[0].Remaining != 7 || f.nodes[1].left(t, far) != 7 || n.left(t, far) != 10 {
		t.Errorf("%v %v %v %+v", allowed, answered, err, verdicts)
	}
	two[1].Shadow = false
	allowed, answered, err = n.Decide(two, verdicts, true)
	if allowed || !answered || err != nil || verdicts[0].Remaining != 7 || f.nodes[1].left(t, far) != 7 {
		t.Errorf("%v %v %v %+v", allowed, answered, err, verdicts)
	}
	many := make([]weir.Check, weir.MaxChecks+1)
	for i := range many {
		many[i] = two[0]
	}
	// What policies never ask is refused, and nothing is taken.
	if _, answered, _ := n.Decide(many, make([]weir.Verdict, len(many)), true); answered || f.nodes[1].left(t, far) != 7 {
		t.Error("too many checks were decided")
	}
	n.Close()
	if _, answered, err := n.Decide(two, verdicts, true); answered || err != nil {
		t.Errorf("after the end: %v, %v", answered, err)
	}
}

// Where the first holder has surely taken nothing, the next one decides.
func TestTheNextHolderDecides(t *testing.T) {
	for name, fail := range map[string]func(f *fleet, n *node){
		"gone":      func(_ *fleet, n *node) { n.Close() },
		"let it go": func(_ *fleet, n *node) { replication.Of(n.engine).Release(1) },
		"refuses": func(f *fleet, n *node) {
			f.answers(n, func([]byte) []byte { return append([]byte{wireVersion}, "\x01\x00\x01why"...) })
		},
		"other size": func(_ *fleet, n *node) { n.partitions = 32 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, n, first, next := threeHolders(t, transporttest.Patience)
			fail(f, first)
			key := f.keyOf(1, 0)
			kl := n.shared(t, "l", 10)
			for range 3 {
				if allowed, answered := n.take(t, kl, key); !allowed || !answered {
					t.Errorf("%v, %v", allowed, answered)
				}
			}
			if first.left(t, key) != 10 || next.left(t, key) != 7 || n.Stats().Undecided != 0 {
				t.Errorf("%d left of the first, %d of the next, %+v", first.left(t, key), next.left(t, key), n.Stats())
			}
		})
	}
}

// threeHolders is a fleet whose node n does not hold partition 1, the first node that it
// asks for it, and the next.
func threeHolders(t *testing.T, within time.Duration) (f *fleet, n, first, next *node) {
	f = newFleet(t, 3, 2, func(cfg *Config) { soon(cfg); cfg.DecideWithin = within })
	n = f.nodes[0]
	asked := n.deciders(1)
	by := map[string]*node{}
	for _, n := range f.nodes {
		by[n.id] = n
	}
	if len(asked) != 2 || n.Holds(f.keyOf(1, 0)) {
		t.Fatal(asked)
	}
	return f, n, by[asked[0]], by[asked[1]]
}

// A take whose answer did not come, or was not understood, is not asked of another: it may
// be taken. For a second others are asked before that node.
func TestATakeIsSentOnce(t *testing.T) {
	for name, fail := range map[string]func(f *fleet, n *node){
		"hangs": func(f *fleet, n *node) { f.newGate(n) },
		"talks": func(f *fleet, n *node) { f.answers(n, func(q []byte) []byte { return []byte{wireVersion, 0, 0, 1} }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, n, first, next := threeHolders(t, 100*time.Millisecond)
			fail(f, first)
			key, kl := f.keyOf(1, 0), n.shared(t, "l", 10)
			if _, answered := n.take(t, kl, key); answered {
				t.Error("it was answered")
			}
			if next.left(t, key) != 10 || n.Stats().Undecided != 1 {
				t.Errorf("%d left of the next, %+v", next.left(t, key), n.Stats())
			}
			n.peers.get(first.id).queues[decision].openUntil.Store(time.Now().Add(time.Hour).UnixNano())
			if allowed, answered := n.take(t, kl, key); !allowed || !answered || next.left(t, key) != 9 {
				t.Errorf("%v, %v, %d left of the next", allowed, answered, next.left(t, key))
			}
			// If it is the only one, nobody waits for it.
			next.Close()
			began := n.Stats().Requests
			for range 3 {
				if _, answered := n.take(t, kl, key); answered {
					t.Error("it was answered")
				}
			}
			if s := n.Stats(); s.Requests > began+1 { // the first found out that next is gone
				t.Errorf("%d requests, then %+v", began, s)
			}
		})
	}
}

// A question that takes nothing is asked of the next one.
func TestAPeekIsAskedAgain(t *testing.T) {
	f, n, first, _ := threeHolders(t, transporttest.Patience)
	f.answers(first, func(q []byte) []byte { return q })
	checks, verdicts := []weir.Check{{Limit: n.shared(t, "l", 10), Key: f.keyOf(1, 0), N: 1}}, make([]weir.Verdict, 1)
	if allowed, answered, err := n.Decide(checks, verdicts, false); !allowed || !answered || err != nil {
		t.Errorf("%v, %v, %v", allowed, answered, err)
	}
}

// What waited behind requests without an answer was never sent: another holder decides it.
func TestWhatWaitedIsDecidedByTheNext(t *testing.T) {
	f, n, first, next := threeHolders(t, transporttest.Patience)
	g := f.newGate(first)
	key, kl := f.keyOf(1, 0), n.shared(t, "l", 10)
	var asking sync.WaitGroup
	var undecided atomic.Int64
	ask := func() {
		asking.Go(func() {
			if _, answered := n.take(t, kl, key); !answered {
				undecided.Add(1)
			}
		})
	}
	var sent []*nats.Msg
	for range maxUnderWay {
		ask()
		sent = append(sent, <-g.msgs)
	}
	const waiting = 6
	for range waiting {
		ask()
	}
	transporttest.Eventually(t, "the others wait", func() bool {
		l := &n.peers.get(first.id).queues[decision]
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting) == waiting
	})
	if err := sent[0].Respond([]byte{wireVersion, 0, 0, 1}); err != nil { // nothing, as by a node that is broken
		t.Fatal(err)
	}
	transporttest.Eventually(t, "the next decides", func() bool { return next.left(t, key) == 10-waiting })
	if err := sent[1].Respond([]byte{wireVersion, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	asking.Wait()
	if lost := undecided.Load(); lost != maxUnderWay || next.left(t, key) != 10-waiting {
		t.Errorf("%d undecided, %d left at the next", lost, next.left(t, key))
	}
}

// When too many wait, a decision is left to the node itself, and nothing is sent.
func TestTooManyDecisions(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, key := f.nodes[0], f.keyOf(1, 0)
	n.deciding.Store(maxDeciding)
	if _, answered := n.take(t, n.shared(t, "l", 10), key); answered || f.nodes[1].left(t, key) != 10 {
		t.Error("it was decided")
	}
	n.deciding.Store(0)
	if allowed, answered := n.take(t, n.shared(t, "l", 10), key); !allowed || !answered {
		t.Errorf("%v, %v", allowed, answered)
	}
}

// A partition that came here meanwhile is decided here, one of nobody is not.
func TestNobodyHoldsIt(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, key := f.nodes[0], f.keyOf(1, 0)
	replication.Of(f.nodes[1].engine).Release(1)
	kl := n.shared(t, "l", 10)
	if _, answered := n.take(t, kl, key); answered {
		t.Error("it was answered")
	}
	if err := replication.Of(n.engine).Hold(1, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	checks, verdicts := []weir.Check{{Limit: kl, Key: key, N: 1}}, make([]weir.Verdict, 1)
	if allowed, answered, err := n.Decide(checks, verdicts, true); !allowed || !answered || err != nil || n.left(t, key) != 9 {
		t.Errorf("%v, %v, %v", allowed, answered, err)
	}
}

// Who used most of a limit is asked of all nodes.
func TestLimitKeys(t *testing.T) {
	f := newFleet(t, 3, 2, nil)
	of := f.nodes[0].shared(t, "l", 10)
	for i := range 30 {
		key := fmt.Sprint("k", i)
		for _, n := range f.nodes {
			if n.Holds(key) { // as the journal has it
				n.shared(t, "l", 10).AllowN(key, uint64(i%10))
			}
		}
	}
	for _, n := range f.nodes {
		uses, err := n.LimitKeys(t.Context(), of, 4)
		var got []string
		for _, u := range uses {
			got = append(got, fmt.Sprint(u.Key, " ", u.Used, "/", u.Limit.Burst))
		}
		if want := "[k19 9/10 k29 9/10 k9 9/10 k18 8/10]"; err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v, want %s", n.id, got, err, want)
		}
		if all, err := n.LimitKeys(t.Context(), of, 100); err != nil || len(all) != 27 {
			t.Errorf("%s: %d keys, %v", n.id, len(all), err)
		}
	}
	if _, err := f.nodes[0].LimitKeys(t.Context(), of, 0); asError(err).Code != weir.CodeInvalidRange {
		t.Error(err)
	}
	f.nodes[1].Close()
	if all, err := f.nodes[0].LimitKeys(t.Context(), of, 99); err != nil || len(all) != 27 {
		t.Errorf("without n1: %d keys, %v", len(all), err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.nodes[0].LimitKeys(gone, of, 98); err == nil {
		t.Error("it waited for nobody")
	}
}
