package admit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// A request to reserve takes nothing where there is no space to note what it reserves.
func TestReserveWithoutSpaceTakesNothing(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := policy.Parse("policies.yaml", []byte("limits:\n  - {name: a, keys: \"a:*\", limit: 10, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	keyed, _ := live.Limit("a")
	until := time.Now().Add(time.Hour)
	for i := range engine.MaxReservations {
		if _, err := keyed.NoteReserved("a:full", 1, engine.Reservation{ID: fmt.Sprint(i), Until: until}, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	var d Decision
	err = live.Reserve([]Request{{Key: "a:x", N: 4}}, engine.Reservation{ID: "one more", Until: until}, &d)
	if refused, ok := errors.AsType[*engine.Error](err); !ok || refused.Code != api.CodeOverloaded {
		t.Errorf("%v, want %s", err, api.CodeOverloaded)
	}
	if v, err := keyed.Peek("a:x", 0); err != nil || v.Remaining != 10 {
		t.Errorf("%+v, %v: the refused request has taken", v, err)
	}
}

// A request to reserve that fails in its second part has reserved and taken nothing, here and in the journal, and can be sent again.
func TestReserveThatFailsInPart(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: 1, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := policy.Parse("policies.yaml", []byte("limits:\n- {name: a, keys: \"a:*\", limit: 10, per: 1h}\n- {name: b, keys: \"a:*\", limit: 20, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := live.Limit("a")
	b, _ := live.Limit("b")
	until := time.Now().Add(time.Hour)
	for i := range engine.MaxReservations - 1 {
		if _, err := a.NoteReserved("a:full", 1, engine.Reservation{ID: fmt.Sprint(i), Until: until}, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	reserve := func() error {
		return live.Reserve([]Request{{Key: "a:x", N: 4}, {Key: "a:x", N: 1}}, engine.Reservation{ID: "x", Until: until}, new(Decision))
	}
	if refused, ok := errors.AsType[*engine.Error](reserve()); !ok || refused.Code != api.CodeOverloaded {
		t.Errorf("%v, want %s", err, api.CodeOverloaded)
	}
	left := func(wantA, wantB uint64) {
		t.Helper()
		for keyed, want := range map[*engine.KeyedLimit]uint64{a: wantA, b: wantB} {
			if v, err := keyed.Peek("a:x", 0); err != nil || v.Remaining != want {
				t.Errorf("%d left of %s, %v, want %d", v.Remaining, keyed.Name(), err, want)
			}
		}
	}
	if left(10, 20); len(live.engine.Limits().Reserved("x")) != 0 {
		t.Errorf("%+v", live.engine.Limits().Reserved("x"))
	}
	if done, err := a.Settle("a:full", "0", 1, false); err != nil || !done.Known {
		t.Fatal(done, err)
	}
	if err := reserve(); err != nil {
		t.Fatal(err)
	}
	left(5, 15)
	if parts := live.engine.Limits().Reserved("x"); len(parts) != 2 || parts[0].Parts != 2 || parts[0].N != 5 {
		t.Errorf("%+v", parts)
	}
	made, err := live.Settle("x", Used{N: 2}, false, nil)
	if err != nil || len(made) != 2 || made[0].Freed != 3 {
		t.Errorf("%+v, %v", made, err)
	}
	left(8, 18)
	var c replication.Cut
	e.Cut(0, &c, false)
	follower, err := engine.New(engine.Config{Partitions: 1, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	if err := errors.Join(follower.ApplyChanges(0, c.Changes), follower.Limits().ApplyAdmissions(0, c.Admissions)); err != nil {
		t.Fatal(err)
	}
	if parts := follower.Limits().Reserved("x"); len(parts) != 2 || !parts[0].Settled {
		t.Errorf("where it is followed: %+v", parts)
	}
}

// A part that a node settled for itself alone reports so at the others too.
func TestSettleAgainAtAnotherNode(t *testing.T) {
	t.Parallel()
	engines := [2]*engine.Engine{}
	for i := range engines {
		e, err := engine.New(engine.Config{Partitions: 1, Gather: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	own, err := engines[0].Limits().LimitIn("n1", limit.WhereNode, "a", engine.Limit{N: 10, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := own.Reserve("a:x", 4, engine.Reservation{ID: "x", Until: time.Now().Add(time.Hour)}); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}
	set, err := policy.Parse("policies.yaml", []byte("limits:\n- {name: a, keys: \"a:*\", limit: 10, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewLive(engines[1], set)
	if err != nil {
		t.Fatal(err)
	}
	settle := func(used uint64, want engine.Changed) (err error) {
		t.Helper()
		var c replication.Cut
		engines[0].Cut(0, &c, false)
		if err := errors.Join(engines[1].ApplyChanges(0, c.Changes), engines[1].Limits().ApplyAdmissions(0, c.Admissions)); err != nil {
			t.Fatal(err)
		}
		made, err := other.Settle("x", Used{N: used}, false, nil)
		if err != nil {
			return err
		}
		if len(made) != 1 || made[0].Was != want.Was || made[0].Again != want.Again || made[0].Used != want.Used || made[0].Reserved != 4 {
			t.Errorf("%+v, want %+v", made, want)
		}
		return nil
	}
	if err := settle(2, engine.Changed{}); err != nil { // only the node that reserved can
		t.Error(err)
	}
	if done, err := own.Settle("a:x", "x", 2, false); err != nil || !done.Known {
		t.Fatal(done, err)
	}
	if err := settle(2, engine.Changed{Was: true, Again: true, Used: 2}); err != nil {
		t.Error(err)
	}
	var reused *engine.Error
	if err := settle(3, engine.Changed{}); !errors.As(err, &reused) || reused.Code != api.CodeKeyReused {
		t.Errorf("settled again with another number: %v", err)
	}
}

// A status that no answer has settles nothing.
func TestSettleByStatus(t *testing.T) {
	for status, ok := range map[uint64]bool{0: false, 42: false, 99: false, 100: true, 401: true, 599: true, 600: false} {
		used := Used{Costs: []Cost{{api.Outcome, status}}}
		p := &policy.Policy{CountIf: policy.Condition{}}
		if _, err := used.forPolicy(p, 1); (err == nil) != ok {
			t.Errorf("%d: %v", status, err)
		}
	}
}
