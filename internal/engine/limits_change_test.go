package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// taken is admissions of one request, and how many of them were really used.
type taken struct {
	at, n int64
}

// Requests take admissions and give a part back, at once or later, on engines that follow each other as
// after kill -9, each made from what the one before left in a journal. What was really used never
// exceeds the burst in any interval, and a replica that follows the journal knows as much.
func TestRefundsGoOnFromTheJournal(t *testing.T) {
	for _, l := range []Limit{
		{N: 16, Per: time.Minute}, {N: 100, Per: time.Minute}, {N: 5, Per: time.Minute, Algorithm: limit.GCRA}, {N: 60, Per: time.Minute, Algorithm: limit.Fixed},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			for seed := range uint64(10) {
				refundsFromJournal(t, l, rand.New(rand.NewPCG(seed, 9)))
			}
		})
	}
}

func refundsFromJournal(t *testing.T, l Limit, random *rand.Rand) {
	t.Helper()
	j, now := newJournaled(t)
	replica := newTestEngine(t, j.cfg)
	kl, followed := mustLimit(t, j.e, "x", l), mustLimit(t, replica, "x", l)
	interval, most := int64(time.Minute), int64(kl.Limit().Burst)
	var all []taken
	flush := func(withState bool) {
		j.flush(withState)
		if err := replica.ApplyChanges(0, changesOf(t, &j.cut)); err != nil {
			t.Fatal(err)
		}
	}
	for range 1500 {
		now.Add(random.Int64N(200)*int64(time.Millisecond) + random.Int64N(1000))
		switch n := 1 + random.Int64N(most/2); random.IntN(10) {
		case 0, 1, 2, 3:
			if kl.AllowN("k", uint64(n)) {
				all = append(all, taken{now.Load(), n})
				checkReally(t, kl.Limit(), all, interval)
			}
		case 4, 5, 6, 7:
			if len(all) == 0 {
				break
			}
			a := &all[max(0, len(all)-1-random.IntN(5))]
			n = min(n, a.n)
			if a.n -= n; n > 0 {
				if _, err := kl.Refund("k", uint64(n), time.Unix(0, a.at)); err != nil {
					t.Fatal(err)
				}
			}
		case 8:
			if flush(false); random.IntN(20) == 0 {
				flush(true)
			}
			for where, keyed := range map[string]*KeyedLimit{"here": kl, "followed": followed} {
				if v, _ := keyed.Peek("k", 0); l.Algorithm == limit.Window && int64(v.Remaining) > most-reallyUsed(all, now.Load(), interval) {
					t.Fatalf("%s: %d left, really used are %d", where, v.Remaining, reallyUsed(all, now.Load(), interval))
				}
			}
		case 9: // a crash: what is in no flush is lost with what was counted since
			if flush(false); random.IntN(10) > 0 {
				break
			}
			j.e = j.restarted()
			kl = mustLimit(t, j.e, "x", l)
		}
	}
	if len(all) < 60 {
		t.Errorf("%d requests admitted in all: too little is given back", len(all))
	}
}

// checkReally holds what was really used to the limit, in the interval that ends now.
func checkReally(t *testing.T, l Limit, all []taken, interval int64) {
	t.Helper()
	most := int64(l.Burst)
	switch l.Algorithm {
	case limit.Fixed:
		most *= 2
	case limit.GCRA:
		most = 2*most - 1
	}
	sum := reallyUsed(all, all[len(all)-1].at, interval)
	if sum > most {
		t.Fatalf("%d really used within %v, at most %d may be", sum, time.Duration(interval), most)
	}
}

func reallyUsed(all []taken, now, interval int64) (sum int64) {
	for i := len(all) - 1; i >= 0 && all[i].at > now-interval; i-- {
		sum += all[i].n
	}
	return sum
}

// A refund of what no cut has yet never reaches the journal, also when the next ones were admitted since.
func TestRefundBeforeTheCut(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 1, Gather: true})
	kl := mustLimit(t, e, "x", Limit{N: 100, Per: time.Hour})
	at := now.Load()
	kl.AllowN("k", 50)
	now.Add(int64(time.Second))
	kl.AllowN("k", 20)
	if free, err := kl.Refund("k", 40, time.Unix(0, at)); free != 40 || err != nil {
		t.Fatal(free, err)
	}
	if free, err := kl.Refund("k", 40, time.Time{}); free != 30 || err != nil {
		t.Fatal(free, err)
	}
	if free, err := kl.Refund("nobody", 40, time.Time{}); free != 0 || err != nil {
		t.Fatal(free, err)
	}
	var c replication.Cut
	if e.Cut(0, &c, false); len(c.Admissions) > 0 || len(c.Changes) > 1 {
		t.Errorf("a cut of what was given back: %+v, %+v", c.Admissions, c.Changes)
	}
	_, err := kl.Refund("", 1, time.Time{})
	wantCode(t, err, api.CodeInvalidKey)
	_, err = kl.Refund("k", 1, time.Unix(-1, 0))
	wantCode(t, err, api.CodeInvalidTime)
}

// While a journal takes nothing, what waits for it is bounded, and has all admissions.
func TestAdmissionsWithoutACut(t *testing.T) {
	c, pass := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 1_000_000, Per: 24 * time.Hour})
	const takes = 5000
	for range takes {
		if !kl.AllowN("k", 1) {
			t.Fatal("denied")
		}
		pass(1500 * time.Millisecond)
	}
	var cut replication.Cut
	c.e.Cut(0, &cut, false)
	n := uint64(0)
	for _, one := range cut.Changes {
		n += one.(*replication.Admission).N
	}
	for _, a := range cut.Admissions {
		n += a.N
	}
	if n != takes || len(cut.Changes) > takes/2 {
		t.Errorf("%d changes and %d admissions have %d of %d", len(cut.Changes), len(cut.Admissions), n, takes)
	}
}

// A time of day that is corrected between what one cut has holds for all of it: the other nodes know how old each is. So it does
// for what a state has.
func TestChangesOfACutHaveOneTimeOfDay(t *testing.T) {
	c, pass := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 1000, Per: 24 * time.Hour})
	for range 3 {
		kl.AllowN("k", 5)
		pass(1500 * time.Millisecond)
	}
	for _, id := range []string{"a", "b"} {
		if v, err := kl.Reserve("k", 10, Reservation{ID: id, Until: c.cfg.Now().Add(time.Hour)}); !v.Allowed || err != nil {
			t.Fatal(v, err)
		}
	}
	for i, change := range []func() error{
		func() error { _, err := kl.Refund("k", 1, c.cfg.Now()); return err },
		func() error { _, err := kl.Settle("k", "b", 4, false); return err },
		func() error { _, err := kl.Permit(admission.TakePermit, "k", 1); return err },
		func() error { return kl.Grant("k", 3, c.cfg.Now().Add(9000*time.Hour)) },
		func() error { return c.e.Limits().Ban("x", "k", 8000*time.Hour) },
		func() error { _, err := kl.Reset("other"); return err },
		func() error { _, err := c.e.Limits().ForgetKeys("none"); return err },
		func() error { _, err := c.e.Limits().ForgetInline("none"); return err },
	} {
		if err := change(); err != nil {
			t.Fatal(i, err)
		}
	}
	const by = 1600 * time.Hour
	c.e.Wall().Correct(by)
	var cut replication.Cut
	c.e.Cut(0, &cut, true)
	state, err := replication.ReadState(cut.State)
	if err != nil {
		t.Fatal(err)
	}
	if len(cut.Changes) < 11 || len(state.Changes) < 5 {
		t.Fatalf("%d changes in the cut, %d in the state", len(cut.Changes), len(state.Changes))
	}
	for _, a := range cut.Admissions {
		cut.Changes = append(cut.Changes, &a)
	}
	for _, one := range append(cut.Changes, state.Changes...) {
		replication.MoveChanges([]replication.Change{one}, func(at int64) int64 {
			if age := c.cfg.Now().Add(by).Sub(time.UnixMilli(at)); age < -time.Millisecond || age > 5*time.Second {
				t.Errorf("%T is %v old, and was made within the last 5 s", one, age)
			}
			return at
		})
	}
}

// Where many are gathered for a cut, a refund of some of them is found where it is followed, too.
func TestRefundAfterTheCut(t *testing.T) {
	for _, where := range []limit.Where{limit.WhereLeased, limit.WhereStrict} {
		c, pass := newChanged(t)
		l := Limit{N: 100, Per: time.Hour}
		kl, err := c.e.Limits().LimitIn("n1", where, "x", l)
		if err != nil {
			t.Fatal(err)
		}
		kl.AllowN("k", 30)
		pass(5 * time.Second)
		at := c.cfg.Now()
		kl.AllowN("k", 20)
		pass(50 * time.Millisecond)
		kl.AllowN("k", 10)
		pass(50 * time.Millisecond)
		c.flush(false)
		pass(5 * time.Second)
		kl.AllowN("k", 5)
		if free, err := kl.Refund("k", 15, at); free != 15 || err != nil {
			t.Fatal(free, err)
		}
		c.flush(false)
		c.left("x", l, 50)
	}
}

// A refund gives back, where more was admitted, what was given back where it was asked for, and no more: what is
// not there to be given back is given back nowhere.
func TestRefundOfMoreThanThereIs(t *testing.T) {
	for _, l := range []Limit{{N: 100, Per: time.Hour}, {N: 10, Per: time.Hour}, {N: 60, Per: time.Hour, Algorithm: limit.GCRA}, {N: 60, Per: time.Hour, Algorithm: limit.Fixed}} {
		c, pass := newChanged(t)
		kl, followed := mustLimit(t, c.e, "x", l), mustLimit(t, c.replica, "x", l)
		kl.AllowN("k", 3)
		c.flush(false)
		followed.AllowN("k", 4) // which its next flush tells of
		pass(time.Second)
		if free, err := kl.Refund("k", 6, time.Time{}); free != 3 || err != nil {
			t.Fatal(free, err)
		}
		c.flush(false)
		if v, _ := followed.Peek("k", 0); v.Remaining > l.N-4 {
			t.Errorf("%+v: %d left where 4 are used", l, v.Remaining)
		}
	}
}

// changed is an engine that is asked, another that follows it, and one made from a journal.
type changed struct {
	*journaled
	replica *Engine
}

func (c *changed) flush(withState bool) {
	c.t.Helper()
	c.journaled.flush(withState)
	followed := changesOf(c.t, &c.cut)
	now := c.cfg.Now().UnixMilli() + 1
	for _, one := range followed {
		if a, admitted := one.(*replication.Admission); admitted && a.N == 0 {
			c.t.Fatalf("%+v in a cut", *a)
		}
	}
	replication.MoveChanges(followed, func(at int64) int64 { // as who follows a journal has them: none is of later
		if at > now {
			c.t.Fatalf("of %d in a cut at %d", at, now)
		}
		return now - max(0, now-at)
	})
	if err := c.replica.ApplyChanges(0, followed); err != nil {
		c.t.Fatal(err)
	}
}

func newChanged(t *testing.T) (*changed, func(time.Duration)) {
	t.Helper()
	j, now := newJournaled(t)
	c := &changed{j, newTestEngine(t, j.cfg)}
	return c, func(by time.Duration) { now.Add(int64(by)) }
}

// left checks what is left of a limit of a name, here, where it is followed, and after kill -9.
func (c *changed) left(name string, l Limit, want uint64) {
	c.t.Helper()
	for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica, "after kill -9": c.restarted()} {
		if v, err := mustLimit(c.t, e, name, l).Peek("k", 0); err != nil || v.Remaining != want {
			c.t.Errorf("%s: %d left of %s, want %d (%v)", where, v.Remaining, name, want, err)
		}
	}
}

// A reset gives a key its whole burst again, wherever the limit is counted; what comes after it counts.
func TestResetIsFollowed(t *testing.T) {
	for _, withState := range []bool{false, true} {
		c, _ := newChanged(t)
		l := Limit{N: 10, Per: time.Hour}
		kl := mustLimit(t, c.e, "x", l)
		kl.AllowN("k", 7)
		kl.AllowN("other", 3)
		c.flush(withState)
		c.left("x", l, 3)
		ofNode := map[*Engine]*KeyedLimit{}
		for e, node := range map[*Engine]string{c.e: "n1", c.replica: "n2"} {
			var err error
			if ofNode[e], err = e.Limits().LimitIn(node, limit.WhereNode, "x", l); err != nil {
				t.Fatal(err)
			}
			ofNode[e].AllowN("k", 10)
		}
		var cut replication.Cut
		c.replica.Cut(0, &cut, false)
		kl.AllowN("k", 1) // in no cut yet
		if was, err := kl.Reset("k"); !was || err != nil {
			t.Fatal(was, err)
		}
		kl.AllowN("k", 2)
		c.flush(false)
		c.left("x", l, 8)
		for _, each := range ofNode {
			if v, _ := each.Peek("k", 0); v.Remaining != 10 {
				t.Errorf("of a node: %+v", v)
			}
		}
		if v, _ := kl.Peek("other", 0); v.Remaining != 7 {
			t.Errorf("another key: %+v", v)
		}
		if was, err := kl.Reset("never seen"); was || err != nil {
			t.Error(was, err)
		}
		_, err := kl.Reset("")
		wantCode(t, err, api.CodeInvalidKey)
	}
}

// What was admitted here and comes after a reset of another node in the journal stays.
func TestResetKeepsWhatComesAfter(t *testing.T) {
	c, _ := newChanged(t)
	l := Limit{N: 10, Per: time.Hour}
	kl, followed := mustLimit(t, c.e, "x", l), mustLimit(t, c.replica, "x", l)
	kl.AllowN("k", 4)
	c.flush(false)
	followed.AllowN("k", 3) // its flush will come after the reset
	if _, err := kl.Reset("k"); err != nil {
		t.Fatal(err)
	}
	c.flush(false)
	if v, _ := followed.Peek("k", 0); v.Remaining != 7 {
		t.Errorf("%+v", v)
	}
	var cut replication.Cut
	c.replica.Cut(0, &cut, false)
	if err := c.e.ApplyChanges(0, changesOf(t, &cut)); err != nil {
		t.Fatal(err)
	}
	if v, _ := kl.Peek("k", 0); v.Remaining != 7 {
		t.Errorf("where it was reset: %+v", v)
	}
}
