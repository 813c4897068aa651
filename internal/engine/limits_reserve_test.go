package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/limit"
)

// A reservation is settled once, here, where it is followed and after kill -9; what is not settled stays used, or is
// given back, and never twice.
func TestReserveAndSettle(t *testing.T) {
	for _, withState := range []bool{false, true} {
		c, pass := newChanged(t)
		l := Limit{N: 100, Per: time.Hour}
		kl := mustLimit(t, c.e, "x", l)
		reserve := func(id string, n uint64, back bool) {
			t.Helper()
			if v, err := kl.Reserve("k", n, Reservation{ID: id, Until: c.cfg.Now().Add(time.Minute), GiveBack: back}); err != nil || !v.Allowed {
				t.Fatal(v, err)
			}
		}
		settle := func(e *Engine, id string, used uint64, want admission.Settled) {
			t.Helper()
			done, err := mustLimit(t, e, "x", l).Settle("k", id, used, false)
			if done.Present = want.Present; err != nil || done != want {
				t.Errorf("settle %s: %+v, %v, want %+v", id, done, err, want)
			}
			if want.Known {
				_, err := mustLimit(t, e, "x", l).Settle("k", id, used+1, false)
				wantCode(t, err, api.CodeKeyReused)
			}
		}
		reserve("a", 30, false)
		reserve("a", 30, false) // the same again
		reserve("b", 20, true)
		reserve("c", 20, true)
		reserve("early", 10, false)
		settle(c.e, "early", 4, admission.Settled{Known: true, Used: 4, Freed: 6}) // before any cut
		c.flush(withState)
		c.left("x", l, 26)
		settle(c.e, "a", 10, admission.Settled{Known: true, Used: 10, Freed: 20})
		settle(c.e, "a", 10, admission.Settled{Known: true, Again: true, Used: 10})
		c.flush(withState)
		c.left("x", l, 46)
		settle(c.restarted(), "a", 10, admission.Settled{Known: true, Again: true, Used: 10})
		settle(c.replica, "a", 10, admission.Settled{Known: true, Again: true, Used: 10})
		settle(c.e, "nobody", 0, admission.Settled{})
		settle(c.e, "b", 25, admission.Settled{Known: true, Used: 25})
		c.flush(false)
		c.left("x", l, 41)
		pass(time.Minute)
		settle(c.e, "c", 5, admission.Settled{}) // it is over
		pass(6 * time.Second)
		c.replica.limits.Lapse() // each node does
		c.e.limits.Lapse()
		c.e.limits.Lapse()
		c.flush(withState)
		c.left("x", l, 61)
		pass(time.Minute)
		c.e.limits.Lapse()
		if n := c.e.limits.Reserved("c"); len(n) != 0 {
			t.Errorf("%+v is still known", n)
		}
	}
}

// What was used beyond a reservation counts as debt, or if the limit has space for it.
func TestSettleMore(t *testing.T) {
	c, _ := newChanged(t)
	l := Limit{N: 100, Per: time.Hour}
	kl := mustLimit(t, c.e, "x", l)
	until := c.cfg.Now().Add(time.Minute)
	for i, step := range []struct {
		used, over, left uint64
		debt             bool
	}{{40, 0, 60, false}, {120, 110, 50, false}, {120, 0, 0, true}} {
		id := fmt.Sprint(i)
		if v, err := kl.Reserve("k", 10, Reservation{ID: id, Until: until}); err != nil || !v.Allowed {
			t.Fatal(v, err)
		}
		if done, err := kl.Settle("k", id, step.used, step.debt); err != nil || done.Over != step.over || done.Used != step.used-step.over || done.Present.Remaining != step.left {
			t.Errorf("%d: %+v, %v", i, done, err)
		}
	}
	c.flush(false)
	c.left("x", l, 0)
}

func TestReserveRefusesBadInput(t *testing.T) {
	c, _ := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 1_000_000, Per: time.Hour})
	until := c.cfg.Now().Add(time.Minute)
	for _, bad := range []struct {
		key  string
		r    Reservation
		code api.Code
	}{
		{"", Reservation{ID: "a", Until: until}, api.CodeInvalidKey}, {"k", Reservation{Until: until}, api.CodeInvalidKey},
		{"k", Reservation{ID: string(make([]byte, 65)), Until: until}, api.CodeInvalidKey},
		{"k", Reservation{ID: "a"}, api.CodeInvalidTime}, {"k", Reservation{ID: "a", Until: until.Add(48 * time.Hour)}, api.CodeInvalidTime},
	} {
		_, err := kl.Reserve(bad.key, 1, bad.r)
		wantCode(t, err, bad.code)
	}
	if _, err := kl.Reserve("k", 1, Reservation{ID: "a"}); !strings.Contains(fmt.Sprint(err), "Until is not set") {
		t.Error(err)
	}
	for i := range MaxReservations {
		if _, err := kl.Reserve("k", 1, Reservation{ID: fmt.Sprint(i), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := kl.Reserve("k", 1, Reservation{ID: "one more", Until: until})
	wantCode(t, err, api.CodeOverloaded)
	if _, err := kl.Reset("k"); err != nil {
		t.Fatal(err)
	}
	if done, err := kl.Settle("k", "7", 0, false); err != nil || done.Freed != 0 || !done.Again { // nothing of it counts any more
		t.Errorf("after a reset: %+v, %v", done, err)
	}
}

// A reservation that was settled is kept for repeats for a minute, here and where it is followed, and not until its ttl is over.
func TestSettledIsForgotten(t *testing.T) {
	c, pass := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 100, Per: time.Hour})
	for _, id := range []string{"settled", "open"} {
		if _, err := kl.Reserve("k", 10, Reservation{ID: id, Until: c.cfg.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	c.flush(false)
	if _, err := kl.Settle("k", "settled", 4, false); err != nil {
		t.Fatal(err)
	}
	c.flush(false)
	for _, step := range []struct {
		pass time.Duration
		kept int
	}{{0, 1}, {59 * time.Second, 1}, {time.Second, 0}} {
		pass(step.pass)
		for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica} {
			e.limits.Lapse()
			if settled, open := e.Limits().Reserved("settled"), e.Limits().Reserved("open"); len(settled) != step.kept || len(open) != 1 {
				t.Errorf("%s after %v more: %+v, %+v", where, step.pass, settled, open)
			}
		}
	}
	c.left("x", kl.Limit(), 86)
}

// Requests reserve, and settle at once, later, twice or never, on engines that follow each other as after kill -9: what was
// really used never exceeds the burst, and once all is over what is left is what it should be, on a replica too.
func TestReservationsGoOnFromTheJournal(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 11))
		c, pass := newChanged(t)
		l := Limit{N: 200, Per: time.Minute}
		if seed%2 == 0 {
			l.N = 16
		}
		type held struct {
			id   string
			at   int
			n    int64
			back bool
			used int64 // -1: it was not settled
		}
		var all []taken
		var open []held
		began := c.cfg.Now().UnixNano()
		kl := mustLimit(t, c.e, "x", l)
		for step := range 600 {
			pass(time.Duration(random.Int64N(100)) * time.Millisecond)
			now := c.cfg.Now()
			switch n := 1 + random.Int64N(int64(l.N)/2); random.IntN(8) {
			case 0, 1, 2:
				h := held{fmt.Sprint(step), len(all), n, random.IntN(2) == 0, -1}
				if v, err := kl.Reserve("k", uint64(n), Reservation{ID: h.id, Until: now.Add(5 * time.Second), GiveBack: h.back}); err != nil {
					t.Fatal(err)
				} else if v.Allowed {
					all = append(all, taken{now.UnixNano(), n})
					open = append(open, h)
					checkReally(t, kl.Limit(), all, int64(time.Minute))
				}
			case 3, 4, 5:
				if len(open) == 0 {
					break
				}
				at := random.IntN(len(open))
				h := open[at]
				used := random.Int64N(h.n + 1)
				if h.used >= 0 {
					used = h.used
				}
				done, err := kl.Settle("k", h.id, uint64(used), false)
				if err != nil || done.Known && !done.Again && done.Used != uint64(used) {
					t.Fatalf("%+v, %v", done, err)
				}
				if done.Known && !done.Again {
					all[h.at].n = used
				}
				open[at].back, open[at].used = false, used // it is settled, or over
				if random.IntN(3) > 0 {
					open = append(open[:at], open[at+1:]...)
				}
			case 6:
				c.flush(random.IntN(10) == 0)
				c.e.limits.Lapse()
			case 7:
				if c.flush(false); random.IntN(10) == 0 {
					c.e = c.restarted()
					kl = mustLimit(t, c.e, "x", l)
				}
			}
			for i := 0; i < len(open); i++ { // what lapsed used nothing, as far as the limit knows
				if h := open[i]; all[h.at].at+int64(10*time.Second) < now.UnixNano() {
					if h.back {
						all[h.at].n = min(all[h.at].n, 0)
					}
					open = append(open[:i], open[i+1:]...)
					i--
				}
			}
		}
		c.flush(false)
		for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica, "after kill -9": c.restarted()} {
			v, _ := mustLimit(t, e, "x", l).Peek("k", 0)
			if used := reallyUsed(all, c.cfg.Now().UnixNano(), int64(time.Minute)); int64(v.Remaining) > int64(l.N)-used && l.Algorithm == limit.Window {
				t.Fatalf("seed %d, %s, after %v: %d left, really used are %d", seed, where, time.Duration(c.cfg.Now().UnixNano()-began), v.Remaining, used)
			}
		}
		pass(2 * time.Minute)
		for _, e := range []*Engine{c.e, c.replica} {
			if v, _ := mustLimit(t, e, "x", l).Peek("k", 0); v.Remaining != l.N {
				t.Fatalf("seed %d: %+v once all is over", seed, v)
			}
		}
	}
}

// What was settled refuses no reservation: as many are kept for repeats as may be open, and of more those that were settled first are forgotten.
func TestSettledAreBounded(t *testing.T) {
	c, _ := newChanged(t)
	kl := mustLimit(t, c.e, "x", Limit{N: 10, Per: time.Hour})
	for i := range MaxReservations + 10 {
		id := fmt.Sprint(i)
		if v, err := kl.Reserve("k", 10, Reservation{ID: id, Until: c.cfg.Now().Add(time.Hour)}); err != nil || !v.Allowed {
			t.Fatal(i, v, err)
		}
		if done, err := kl.Settle("k", id, 0, false); err != nil || done.Freed != 10 {
			t.Fatal(i, done, err)
		}
	}
	for id, kept := range map[string]int{"9": 0, "10": 1, fmt.Sprint(MaxReservations): 1} {
		if known := c.e.Limits().Reserved(id); len(known) != kept {
			t.Errorf("reservation %s: %+v", id, known)
		}
	}
}

// The ID of a reservation that is over takes nothing until it is forgotten: it could not be settled.
func TestReserveUnderTheIDOfOneThatIsOver(t *testing.T) {
	c, pass := newChanged(t)
	l := Limit{N: 100, Per: time.Hour}
	kl := mustLimit(t, c.e, "x", l)
	reserve := func(e *Engine) (Verdict, error) {
		return mustLimit(t, e, "x", l).Reserve("k", 10, Reservation{ID: "a", Until: c.cfg.Now().Add(time.Minute), GiveBack: true})
	}
	if v, err := reserve(c.e); !v.Allowed || err != nil {
		t.Fatal(v, err)
	}
	c.flush(false)
	pass(61 * time.Second)
	refused := func(e *Engine) {
		t.Helper()
		_, err := reserve(e)
		wantCode(t, err, api.CodeKeyReused)
	}
	for range 2 {
		refused(c.e)
		refused(c.replica)
		refused(c.restarted())
		pass(6 * time.Second)
		c.e.limits.Lapse()
		c.replica.limits.Lapse()
	}
	c.flush(false)
	c.left("x", l, 100)
	pass(10 * time.Second)
	c.e.limits.Lapse()
	if v, err := reserve(c.e); !v.Allowed || v.Remaining != 90 || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	if done, err := kl.Settle("k", "a", 4, false); !done.Known || done.Freed != 6 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
}
