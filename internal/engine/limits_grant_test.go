package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A grant is used once, after what the limit has, by requests alone and by several at once; it survives
// kill -9 with what was used of it, and is over in time.
func TestGrant(t *testing.T) {
	for _, l := range []Limit{{N: 5, Per: time.Hour}, {N: 50, Per: time.Hour}, {N: 5, Per: time.Hour, Algorithm: limit.GCRA}} {
		for _, withState := range []bool{false, true} {
			c, pass := newChanged(t)
			kl := mustLimit(t, c.e, "x", l)
			until := c.cfg.Now().Add(10 * time.Minute)
			if err := kl.Grant("k", 100, until); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the same again is the same
				if err := kl.Grant("k", 7, until); err != nil {
					t.Fatal(err)
				}
			}
			if v, err := kl.Take("k", l.N+3); err != nil || !v.Allowed || v.Remaining != 4 {
				t.Errorf("more than the burst: %+v, %v", v, err)
			}
			c.flush(withState)
			c.left("x", l, 4)
			verdicts := make([]Verdict, 2)
			if ok, err := c.e.Limits().TakeAll([]Check{{Limit: kl, Key: "k", N: 2}, {Limit: kl, Key: "k", N: 3}}, verdicts); ok || err != nil {
				t.Errorf("5 of 4: %+v, %v", verdicts, err)
			}
			if ok, err := c.e.Limits().TakeAll([]Check{{Limit: kl, Key: "k", N: 2}, {Limit: kl, Key: "other", N: 1}}, verdicts); !ok || err != nil || verdicts[0].Remaining != 2 {
				t.Errorf("2 of 4: %+v, %v", verdicts, err)
			}
			if v, _ := kl.Take("k", 3); v.Allowed || v.RetryAfter <= 0 || v.Never {
				t.Errorf("3 of 2: %+v", v)
			}
			if !kl.Allow("k") {
				t.Error("1 of 2")
			}
			c.flush(false)
			c.left("x", l, 1)
			pass(10 * time.Minute)
			if l.Algorithm == limit.Window {
				c.left("x", l, 0)
			}
			if err := kl.Grant("k", 0, time.Time{}); err != nil { // taking back is in the journal, too
				t.Fatal(err)
			}
			c.flush(false)
			if v, _ := kl.Peek("k", 0); v.Remaining > 1 {
				t.Errorf("after its end: %+v", v)
			}
		}
	}
}

// A grant that two owners of the key make, since the answer of the first one was lost, is one grant, wherever the first one's comes in the
// journal: what was used of it stays used on all nodes.
func TestGrantOfAFormerOwnerComesLate(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for late := range 3 { // so many batches of the new owner come before it
		var engines [3]*Engine // the former owner, the new one, and a node that follows
		var kept [3]*KeyedLimit
		for i := range engines {
			engines[i] = newTestEngine(t, Config{Partitions: 1, Gather: true})
			kept[i] = mustLimit(t, engines[i], "x", Limit{N: 5, Per: time.Hour})
		}
		batches := func(node int) []replication.Change {
			var c replication.Cut
			engines[node].Cut(0, &c, false)
			return changesOf(t, &c)
		}
		var journal [][]replication.Change
		for _, make := range []func() error{
			func() error { return kept[1].Grant("k", 10, later) },
			func() error {
				if v, err := kept[1].Take("k", 8); err != nil || !v.Allowed { // 5 of the limit
					t.Fatal(v, err)
				}
				return kept[0].Grant("k", 10, later)
			},
		} {
			if err := make(); err != nil {
				t.Fatal(err)
			}
			journal = append(journal, batches(1))
		}
		journal = slices.Insert(journal, late, batches(0))
		for at, list := range journal {
			for i, e := range engines {
				if wrote := map[bool]int{true: 0, false: 1}[at == late]; i == wrote {
					continue
				}
				if err := e.ApplyChanges(0, list); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range engines {
			if v, err := kept[i].Peek("k", 0); err != nil || v.Remaining != 7 {
				t.Errorf("late by %d, engine %d: %d left, want 7", late, i, v.Remaining)
			}
		}
	}
}

// A grant that a former owner made, and never answered, is not used if it comes after the key's grant was taken back or reset, whatever the
// clocks of both say, and also where a state was loaded meanwhile. What the new owner grants after that is.
func TestGrantIsTakenBackBeforeALateOne(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	later := now.Add(time.Hour)
	for _, skew := range []time.Duration{0, -1900 * time.Millisecond, 1900 * time.Millisecond} {
		for _, reset := range []bool{false, true} {
			for _, knows := range []bool{false, true} { // the new owner made the same grant
				engineOf := func(ahead time.Duration) (*Engine, *KeyedLimit) {
					e := newTestEngine(t, Config{Partitions: 1, Gather: true, Now: func() time.Time { return now.Add(ahead) }})
					return e, mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour})
				}
				cut := func(e *Engine) (c replication.Cut, changes []replication.Change) {
					e.Cut(0, &c, true)
					return c, changesOf(t, &c)
				}
				former, made := engineOf(skew)
				owner, kept := engineOf(0)
				if err := made.Grant("k", 10, later); err != nil {
					t.Fatal(err)
				}
				_, late := cut(former)
				if knows || reset {
					if err := kept.Grant("k", 10, later); err != nil {
						t.Fatal(err)
					}
				}
				if reset {
					if _, err := kept.Reset("k"); err != nil {
						t.Fatal(err)
					}
				} else if err := kept.Grant("k", 0, time.Time{}); err != nil {
					t.Fatal(err)
				}
				state, changes := cut(owner)
				follower, followed := engineOf(-time.Second)
				loaded, restored := engineOf(time.Second)
				if err := errors.Join(follower.ApplyChanges(0, changes), loaded.LoadState(0, state.State, 0)); err != nil {
					t.Fatal(err)
				}
				left := func(want uint64, lists ...[]replication.Change) {
					t.Helper()
					for i, e := range []*Engine{owner, follower, loaded} {
						for _, list := range lists {
							if err := e.ApplyChanges(0, list); err != nil {
								t.Fatal(err)
							}
						}
						l := []*KeyedLimit{kept, followed, restored}[i]
						if v, err := l.Peek("k", 0); err != nil || v.Remaining != want {
							t.Errorf("skew %v, reset %v, knows %v: engine %d: %d left, want %d", skew, reset, knows, i, v.Remaining, want)
						}
					}
				}
				left(5, late)
				if err := kept.Grant("k", 1, now.Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				_, changes = cut(owner)
				left(6, changes, late)
				now = now.Add(2 * time.Minute)
				for _, e := range []*Engine{owner, follower, loaded} {
					e.limits.Expire(0)
				}
				left(5, late)                                      // one that was made and is over does not change that
				if err := kept.Grant("k", 10, later); err != nil { // the same numbers again
					t.Fatal(err)
				}
				_, changes = cut(owner)
				left(15, changes, late)
			}
		}
	}
}

func TestGrantRefusesBadInput(t *testing.T) {
	c, pass := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 5, Per: time.Hour})
	later := c.cfg.Now().Add(time.Hour)
	wantCode(t, kl.Grant("", 1, later), api.CodeInvalidKey)
	wantCode(t, kl.Grant("k", limit.MaxBurst+1, later), api.CodeInvalidCount)
	wantCode(t, kl.Grant("k", 1, c.cfg.Now()), api.CodeInvalidTime)
	wantCode(t, kl.Grant("k", 1, time.Time{}), api.CodeInvalidTime)
	for i := range MaxGrants {
		if err := kl.Grant(fmt.Sprint(i), 1, later); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, kl.Grant("k", 1, later), api.CodeOverloaded)
	if err := kl.Grant("1", 0, time.Time{}); err != nil { // one is taken back
		t.Fatal(err)
	}
	if err := kl.Grant("k", 1, later); err != nil {
		t.Error(err)
	}
	if was, err := kl.Reset("k"); !was || err != nil {
		t.Error("a reset takes the grant back:", was, err)
	}
	pass(time.Hour)
	c.e.limits.Expire(0)
	if err := kl.Grant("k", 1, later.Add(time.Hour)); err != nil {
		t.Error("after all are over:", err)
	}
}

// A grant that is asked for again after a restart, or that the journal has once more, is the same: what was used of it stays used.
func TestGrantAgainAfterARestart(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 1, Gather: true})
	for range 3 {
		kl := mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour})
		if err := kl.Grant("k", 10, time.Unix(1_700_086_400, 0)); err != nil {
			t.Fatal(err)
		}
		if v, _ := kl.Take("k", 4); !v.Allowed {
			t.Fatalf("denied: %+v", v)
		}
		var c replication.Cut
		e.Cut(0, &c, true)
		fresh, at := limitEngine(t, Config{Partitions: 1, Gather: true})
		at.Store(now.Load())
		if err := fresh.LoadState(0, c.State, 0); err != nil {
			t.Fatal(err)
		}
		e, now = fresh, at
	}
	if v, err := mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour}).Peek("k", 0); err != nil || v.Remaining != 3 {
		t.Errorf("%+v, %v are left of 15 after 12", v, err)
	}
}
