package limits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/policy"
)

// worker is a holder as it sees itself: it has a permit until a ttl after it sent the last heartbeat that was answered.
type worker struct {
	id    uint64
	until time.Duration // of all time
}

// Whoever is slow, silent or dead, and however often the server is killed and starts anew: never do more than max believe
// that they hold a permit. And a permit is not lost that is renewed in time, but to a limit that was made smaller.
func TestNeverMoreThanMost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		const ttl = 30 * time.Second
		of := []policy.AtOnce{{Name: "jobs", Key: "k", Most: 1 + random.IntN(5), TTL: ttl}}
		table, began := NewPermits(), time.Duration(0)
		var now time.Duration
		var working []*worker
		next, taken, restarts := uint64(0), 0, 0
		for range 5000 {
			now += time.Duration(random.Int64N(int64(4 * time.Second)))
			if random.IntN(300) == 0 {
				now += time.Duration(random.Int64N(int64(3 * ttl))) // everybody is suspended, or the server is down
			}
			if random.IntN(200) == 0 {
				table, began = NewPermits(), now // kill -9
				restarts++
			}
			alive := working[:0]
			for _, w := range working {
				switch {
				case now >= w.until: // it knows that it has lost it
				case random.IntN(100) == 0: // it dies, and does not say so
				case random.IntN(40) == 0:
					table.Release(now-began, w.id, of)
				default:
					alive = append(alive, w)
				}
			}
			working = alive
			for _, w := range working {
				if random.IntN(3) > 0 {
					continue
				}
				sent := now - time.Duration(random.Int64N(int64(time.Second)))
				inTime := now < w.until
				if table.Renew(now-began, w.id, of).OK {
					if random.IntN(10) > 0 { // else the answer is lost
						w.until = max(w.until, sent+ttl)
					}
				} else if inTime {
					t.Fatalf("seed %d: a permit was lost that was renewed in time", seed)
				}
			}
			next++
			if table.Take(now-began, next, of).OK {
				taken++
				if sent := now - time.Duration(random.Int64N(int64(time.Second))); random.IntN(10) > 0 {
					working = append(working, &worker{id: next, until: sent + ttl})
				}
			}
			if len(working) > of[0].Most {
				t.Fatalf("seed %d: %d work at once, at most %d may", seed, len(working), of[0].Most)
			}
		}
		if taken < 50 || restarts < 5 {
			t.Errorf("seed %d: only %d permits, %d restarts", seed, taken, restarts)
		}
	}
}

func TestAllOrNone(t *testing.T) {
	t.Parallel()
	table := NewPermits()
	both := []policy.AtOnce{{Name: "user", Key: "u", Most: 5, TTL: time.Second}, {Name: "team", Key: "t", Most: 1, TTL: time.Minute}}
	if o := table.Take(30*time.Second, 1, both); o.OK || !o.Starts || o.Denied.Name != "team" || o.Wait != 30*time.Second {
		t.Errorf("%+v", o)
	}
	now := time.Hour
	if o := table.Take(now, 1, both); !o.OK {
		t.Errorf("%+v", o)
	}
	if o := table.Take(now+time.Second/2, 2, both); o.OK || o.Denied.Name != "team" || o.Held != 1 || o.Wait != time.Minute-time.Second/2 {
		t.Errorf("%+v", o)
	}
	held := map[string]int{}
	table.Each(now, func(limit, key string, n int) { held[limit+" "+key] += n })
	if len(held) != 2 || held["user u"] != 1 || held["team t"] != 1 {
		t.Errorf("nothing is taken of a denial: %v", held)
	}
	if o := table.Renew(now+2*time.Second, 1, both); !o.OK { // of user it ran out, and there is room
		t.Errorf("%+v", o)
	}
	if o := table.Renew(now+2*time.Second, 9, both); o.OK {
		t.Errorf("a permit that was never taken: %+v", o)
	}
	if !table.Release(now+2*time.Second, 1, both) || table.Release(now+2*time.Second, 1, both) || len(table.keys) != 0 {
		t.Error("a release that is repeated releases once, and leaves nothing")
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	table, now := NewPermits(), time.Hour
	of := func(i int) []policy.AtOnce {
		return []policy.AtOnce{{Name: "l", Key: fmt.Sprint(i), Most: 1, TTL: time.Second}}
	}
	for i := range MaxPermits {
		if o := table.Take(now, uint64(i), of(i)); !o.OK {
			t.Fatalf("%d: %+v", i, o)
		}
	}
	if o := table.Take(now, MaxPermits, of(MaxPermits)); !o.Full {
		t.Errorf("%+v", o)
	}
	if o := table.Take(now+time.Second, MaxPermits, of(MaxPermits)); !o.OK || len(table.keys) != 1 {
		t.Errorf("once they ran out: %+v", o)
	}
}

// A table that is full takes no holder's permit away.
func TestAFullTableRenews(t *testing.T) {
	t.Parallel()
	table, at := NewPermits(), 2*time.Minute
	of := func(k int) []policy.AtOnce {
		return []policy.AtOnce{{Name: "l", Key: fmt.Sprint(k), Most: 1000, TTL: time.Minute}}
	}
	for i := range MaxPermits {
		if o := table.Take(at, uint64(i), of(i%1000)); !o.OK {
			t.Fatalf("%d: %+v", i, o)
		}
	}
	if o := table.Take(at, MaxPermits, of(0)); !o.Full {
		t.Errorf("one more: %+v", o)
	}
	if o := table.Renew(at+time.Second, 7, of(7)); !o.OK {
		t.Errorf("a heartbeat: %+v", o)
	}
}
