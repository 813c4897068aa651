package limits

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// Whatever node is asked, a change is made where the key is decided, and the next holder knows of it.
func TestChangesAreTheHolders(t *testing.T) {
	t.Parallel()
	const deadline = 800 * time.Millisecond // a take that is not answered on a slow machine is taken
	c := newClusterWithin(t, hourly, 5*time.Millisecond, deadline)
	const key = "h:a"
	for i := range ClusterSize {
		c.Decided(i, key)
	}
	holder := c.holder(t, key)
	other := (holder + 1) % 3
	left := func(i int) (n uint64) {
		t.Helper()
		transporttest.Eventually(t, "what is left is known", func() bool {
			var d admit.Decision
			if err := c.At(i).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil {
				t.Fatal(err)
			}
			n = d.Results[0].Remaining
			return d.Results[0].Away == ""
		})
		return n
	}
	// take asks for n. On a slow machine the answer may be lost, and what was asked for be taken or not: what is left tells.
	take := func(i int, n uint64) (d admit.Decision) {
		t.Helper()
		before := left(i)
		transporttest.Eventually(t, "it is decided", func() bool {
			if err := c.At(i).Live.Take([]admit.Request{{Key: key, N: n}}, &d); err != nil {
				t.Fatal(err)
			}
			if d.Results[0].Away == "" {
				return true
			}
			d.Results[0].Remaining = left(i)
			d.Allowed = d.Results[0].Remaining+n == before
			return d.Allowed
		})
		return d
	}
	change := func(make func(l *admit.Live) (admit.Changed, error)) (made admit.Changed) {
		t.Helper()
		transporttest.Eventually(t, "the change is answered", func() bool {
			var err error
			made, err = make(c.At(other).Live)
			if refused, ok := errors.AsType[*engine.Error](err); ok && refused.Code == api.CodeNotHeld {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
			return true
		})
		return made
	}
	// refund gives one back, of which nothing is left. On a slow machine it is asked for again where it was not made.
	refund := func(i int, id string) (made admit.Changed) {
		t.Helper()
		transporttest.Eventually(t, "the refund is answered", func() bool {
			list, err := c.At(i).Live.Refund([]admit.Request{{Key: key, N: 1}}, time.Time{}, id, "")
			if wrong, ok := errors.AsType[*engine.Error](err); ok && wrong.Code == api.CodeNotHeld {
				made.Freed, made.Remaining = left(i), left(i)
				return made.Freed > 0
			} else if err != nil {
				t.Fatal(err)
			}
			made = list[0]
			return true
		})
		return made
	}
	if d := take(other, 10); !d.Allowed {
		t.Fatalf("%+v", d.Results)
	}
	// The answer comes after the deadline, of the holder itself and of another node: the change is made once.
	for _, i := range []int{holder, other} {
		c.answerLate(holder, deadline+50*time.Millisecond)
		if made := refund(i, ""); made.Freed != 1 || made.Remaining != 1 {
			t.Errorf("node %d: a refund whose answer is late: %+v", i, made)
		}
		if d := take(holder, 1); !d.Allowed || d.Results[0].Remaining != 0 {
			t.Errorf("after it: %+v", d.Results)
		}
	}
	// One that comes again, at whatever node, gives back once.
	for _, i := range []int{other, holder} {
		if made := refund(i, "again"); made.Freed != 1 || made.Remaining != 1 {
			t.Errorf("node %d: a refund under an ID: %+v", i, made)
		}
	}
	if d := take(holder, 1); !d.Allowed || d.Results[0].Remaining != 0 {
		t.Errorf("after it: %+v", d.Results)
	}
	made := change(func(l *admit.Live) (admit.Changed, error) {
		list, err := l.Refund([]admit.Request{{Key: key, N: 4}}, time.Time{}, "", "")
		if err != nil {
			return admit.Changed{}, err
		}
		return list[0], nil
	})
	if made.Freed != 4 || made.Remaining != 4 {
		t.Errorf("refund: %+v", made)
	}
	if d := take(holder, 4); !d.Allowed { // at once, at the holder
		t.Errorf("after the refund: %+v", d.Results)
	}
	made = change(func(l *admit.Live) (admit.Changed, error) {
		made, ok, err := l.Grant("h", key, 5, time.Now().Add(time.Hour))
		if !ok {
			t.Fatal("no limit h")
		}
		return made, err
	})
	if d := take(other, 2); !d.Allowed || made.Remaining != 5 {
		t.Errorf("a grant: %+v, then %+v", made, d.Results)
	}
	var reserved admit.Decision
	until := time.Now().Add(time.Minute)
	transporttest.Eventually(t, "the reservation is decided", func() bool { // one whose answer was lost is found by its ID
		if err := c.At(other).Live.Reserve([]admit.Request{{Key: key, N: 3}}, engine.Reservation{ID: "r", Until: until}, &reserved); err != nil {
			t.Fatal(err)
		}
		return reserved.Results[0].Away == ""
	})
	if !reserved.Allowed {
		t.Errorf("a reservation: %+v", reserved.Results)
	}
	transporttest.Eventually(t, "the third node knows of the reservation", func() bool { return len(c.At(3-holder-other).Engine.Limits().Reserved("r")) == 1 })
	kl, err := c.At(other).Engine.Limits().LimitIn("n", limit.WhereStrict, "h", engine.Limit{N: 10, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	another := changeOf("n", engine.Change{Kind: engine.ChangeRefund}, engine.Check{Limit: kl, Key: key, N: 1})
	before, err := c.At(other).Decider.owners.change(c.At(other).Decider.Group(key), another)
	if err != nil || before.err != nil || before.changed.Freed != 1 {
		t.Errorf("%+v, %v", before, err)
	}
	if d := take(other, 1); !d.Allowed {
		t.Errorf("after another refund: %+v", d.Results)
	}
	c.Crash(holder) // the next one knows of all
	c.holder(t, key)
	c.Decided(other, key)
	if again, err := c.At(other).Decider.owners.change(c.At(other).Decider.Group(key), another); err != nil || again.err != nil || again.changed != before.changed {
		t.Errorf("the same refund, asked of the next holder: %+v, %v, first it was %+v", again, err, before)
	}
	var d admit.Decision
	if err := c.At(other).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil || d.Results[0].Remaining > 0 {
		t.Errorf("after a crash: %+v, %v: want none left of the grant", d.Results, err)
	}
	for _, again := range []bool{false, true} {
		made = change(func(l *admit.Live) (admit.Changed, error) {
			list, err := l.Settle("r", admit.Used{N: 3}, false, nil)
			if err != nil || len(list) != 1 {
				return admit.Changed{}, err
			}
			return list[0], nil
		})
		if !made.Was || made.Used != 3 || again && !made.Again {
			t.Errorf("settled at another holder: %+v", made)
		}
	}
	change(func(l *admit.Live) (admit.Changed, error) {
		made, _, err := l.Reset("h", key)
		return made, err
	})
	if d := take(other, 10); !d.Allowed {
		t.Errorf("after a reset: %+v", d.Results)
	}
}
