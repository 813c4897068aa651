package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A reservation that is settled late gives back what was not used, whatever was admitted since: here, where it is followed and after
// kill -9. A Window with a burst above 256 has admissions together at the latest of their times, so it must not be asked for that time.
func TestSettleLongAfterTheReservation(t *testing.T) {
	for _, l := range []Limit{{N: 1_000_000, Per: 366 * 24 * time.Hour}, {N: 1000, Per: time.Hour}, {N: 200, Per: time.Hour}} {
		for _, flushed := range []bool{false, true} {
			c, pass := newChanged(t)
			kl := mustLimit(t, c.e, "x", l)
			for i := range 5 {
				if v, err := kl.Reserve("k", 10, Reservation{ID: fmt.Sprint(i), Until: c.cfg.Now().Add(time.Hour)}); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
				pass(time.Second)
			}
			if flushed {
				c.flush(false)
			}
			pass(10 * time.Second)
			kl.AllowN("k", 8)
			c.flush(flushed)
			c.e = c.restarted()
			kl = mustLimit(t, c.e, "x", l)
			for i := range 5 {
				if done, err := kl.Settle("k", fmt.Sprint(i), 3, false); err != nil || done.Freed != 7 {
					t.Errorf("%+v: reservation %d: %+v, %v", l, i, done, err)
				}
			}
			c.flush(false)
			c.left("x", l, l.N-23)
		}
	}
}

// A start long after the end of a reservation reads both it and its settlement from the journal, or from a state and the journal.
func TestSettledBeforeALateStart(t *testing.T) {
	for _, stated := range []bool{false, true} {
		c, pass := newChanged(t)
		l := Limit{N: 1000, Per: 24 * time.Hour}
		kl := mustLimit(t, c.e, "x", l)
		for _, id := range []string{"settled", "returned", "stays"} {
			if v, err := kl.Reserve("k", 100, Reservation{ID: id, Until: c.cfg.Now().Add(time.Minute), GiveBack: id != "stays"}); err != nil || !v.Allowed {
				t.Fatal(v, err)
			}
		}
		c.flush(stated)
		if _, err := kl.Settle("k", "settled", 30, false); err != nil {
			t.Fatal(err)
		}
		c.flush(false)
		pass(5 * time.Minute)
		c.e = c.restarted() // where nothing gave back what was to be returned
		for range 3 {
			pass(time.Minute)
			c.e.limits.Lapse()
		}
		v, err := mustLimit(t, c.e, "x", l).Peek("k", 0)
		if err != nil || v.Remaining != 1000-30-100 {
			t.Errorf("with state %v: %+v, %v, want %d left", stated, v, err, 1000-30-100)
		}
		for _, id := range []string{"settled", "returned", "stays"} {
			if known := c.e.Limits().Reserved(id); len(known) > 0 {
				t.Errorf("%+v is still known", known)
			}
		}
	}
}

// ledger is the naive model: what keys have used, and the reservations that count.
type ledger struct {
	used uint64 // without reservations
	open map[string]uint64
	done map[string]uint64 // by ID: used
}

func (l *ledger) clone() *ledger {
	return &ledger{l.used, maps.Clone(l.open), maps.Clone(l.done)}
}

func (l *ledger) sum() (n uint64) {
	n = l.used
	for _, parts := range []map[string]uint64{l.open, l.done} {
		for _, one := range parts {
			n += one
		}
	}
	return n
}

// Reserving, settling, cuts and snapshots come in any order, flushes are written late, and a crash loses those that were not and what no cut
// has: what is used afterwards is what the model says of the last flush that was written, to the admission.
func TestCrashesLeaveReservationsWhole(t *testing.T) {
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 21))
		c, pass := newChanged(t)
		l := []Limit{{N: 1_000_000, Per: 366 * 24 * time.Hour}, {N: 1_000_000, Per: 366 * 24 * time.Hour, Algorithm: limit.Fixed}, {N: 250, Per: 366 * 24 * time.Hour}}[seed%3]
		kl := mustLimit(t, c.e, "x", l)
		now := &ledger{open: map[string]uint64{}, done: map[string]uint64{}}
		written := now.clone()
		type flush struct {
			then    *ledger
			changes []replication.Change
			state   []byte
		}
		var late []flush // cut, and not written
		write := func() {
			f := late[0]
			late, written = late[1:], f.then
			if c.since = append(c.since, f.changes...); f.state != nil {
				c.state, c.since = f.state, nil
			}
		}
		for step := range 300 {
			pass(time.Duration(random.Int64N(int64(time.Second) << random.IntN(3))))
			switch random.IntN(9) {
			case 0, 1:
				id, n := fmt.Sprint(step), 1+random.Uint64N(9)
				if now.sum()+n > l.N {
					break
				}
				if v, err := kl.Reserve("k", n, Reservation{ID: id, Until: c.cfg.Now().Add(20 * time.Hour)}); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
				now.open[id] = n
			case 2, 3, 4:
				for id, n := range now.open {
					used := random.Uint64N(n + 1)
					if done, err := kl.Settle("k", id, used, false); err != nil || done.Used != used || done.Freed != n-used {
						t.Fatalf("seed %d, step %d: %d of %d used: %+v, %v", seed, step, used, n, done, err)
					}
					delete(now.open, id)
					now.done[id] = used
					break
				}
			case 5:
				if now.sum() < l.N && kl.Allow("k") {
					now.used++
				}
			case 6:
				withState := random.IntN(4) == 0
				c.e.Cut(0, &c.cut, withState)
				f := flush{then: now.clone(), changes: changesOf(t, &c.cut)}
				if withState {
					f.state = slices.Clone(c.cut.State)
				}
				late = append(late, f)
			case 7:
				if len(late) > 0 {
					write()
				}
			case 8:
				if random.IntN(8) > 0 {
					break
				}
				c.e, late = c.restarted(), nil
				now = written.clone()
				kl = mustLimit(t, c.e, "x", l)
			}
			if v, err := kl.Peek("k", 0); err != nil || l.N-v.Remaining != now.sum() {
				t.Fatalf("seed %d, step %d: %+v: %d used, want %d (%v)", seed, step, l, l.N-v.Remaining, now.sum(), err)
			}
		}
	}
}
