package limits

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// worker is a holder as it sees itself: it has a permit until a ttl after it sent the last heartbeat that was answered.
type worker struct {
	id    uint64
	until time.Time
}

// startPermits starts a server alone, which knows nothing of one before.
func startPermits(t *testing.T) *Service {
	t.Helper()
	e, err := engine.New(engine.Config{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	live, err := admit.NewLive(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Service{parts: Parts{Engine: e, Policies: live}, begun: e.Limits().Clock.Now()}
}

// Whoever is slow, silent or dead, and however often the server is killed and starts anew: never do more than max believe
// that they hold a permit. And a permit is not lost that is renewed in time, but to a limit that was made smaller.
func TestNeverMoreThanMost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { neverMoreThanMost(t, seed) })
	}
}

func neverMoreThanMost(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	const ttl = 30 * time.Second
	limits := []policy.AtOnce{{Name: "jobs", Key: "k", Most: 1 + random.IntN(5), TTL: ttl}}
	s := startPermits(t)
	var working []*worker
	next, taken, restarts := uint64(0), 0, 0
	for range 5000 {
		time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
		if random.IntN(300) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(3 * ttl)))) // everybody is suspended, or the server is down
		}
		if random.IntN(200) == 0 {
			s = startPermits(t) // kill -9
			restarts++
		}
		now := time.Now()
		alive := working[:0]
		for _, w := range working {
			switch {
			case !now.Before(w.until): // it knows that it has lost it
			case random.IntN(100) == 0: // it dies, and does not say so
			case random.IntN(40) == 0:
				if _, err := s.parts.Policies.ReleasePermit(w.id, limits); err != nil {
					t.Fatal(err)
				}
			default:
				alive = append(alive, w)
			}
		}
		working = alive
		for _, w := range working {
			if random.IntN(3) > 0 {
				continue
			}
			sent := now.Add(-time.Duration(random.Int64N(int64(time.Second))))
			if o, err := s.renewPermit(w.id, limits); err != nil {
				t.Fatal(err)
			} else if !o.OK {
				t.Fatalf("seed %d: a permit was lost that was renewed in time", seed)
			}
			if until := sent.Add(ttl); random.IntN(10) > 0 && until.After(w.until) { // else the answer is lost
				w.until = until
			}
		}
		next++
		o, err := s.takePermit(next, limits)
		if err != nil {
			t.Fatal(err)
		}
		if o.OK {
			taken++
			if sent := now.Add(-time.Duration(random.Int64N(int64(time.Second)))); random.IntN(10) > 0 {
				working = append(working, &worker{id: next, until: sent.Add(ttl)})
			}
		}
		if len(working) > limits[0].Most {
			t.Fatalf("seed %d: %d work at once, at most %d may", seed, len(working), limits[0].Most)
		}
	}
	if taken < 50 || restarts < 5 {
		t.Errorf("seed %d: only %d permits, %d restarts", seed, taken, restarts)
	}
}

func TestAllOrNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, allOrNone)
}

func allOrNone(t *testing.T) {
	s := startPermits(t)
	both := []policy.AtOnce{{Name: "user", Key: "u", Most: 5, TTL: time.Second}, {Name: "team", Key: "t", Most: 1, TTL: time.Minute}}
	time.Sleep(30 * time.Second)
	if o, err := s.takePermit(1, both); err != nil || o.OK || !o.Starts || o.Denied.Name != "team" || o.Wait != 30*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
	time.Sleep(time.Hour)
	if o, err := s.takePermit(1, both); err != nil || !o.OK {
		t.Errorf("%+v, %v", o, err)
	}
	time.Sleep(time.Second / 2)
	if o, err := s.takePermit(2, both); err != nil || o.OK || o.Denied.Name != "team" || o.Held != 1 || o.Wait != time.Minute-time.Second/2 {
		t.Errorf("%+v, %v", o, err)
	}
	held := map[string]int{}
	s.parts.Policies.Permits(func(limit, key string, n int) { held[limit+" "+key] += n })
	if len(held) != 2 || held["user u"] != 1 || held["team t"] != 1 {
		t.Errorf("nothing is taken of a denial: %v", held)
	}
	time.Sleep(time.Second * 3 / 2)
	if o, err := s.renewPermit(1, both); err != nil || !o.OK { // of user it ran out, and there is space
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := s.renewPermit(9, both); err != nil || o.OK {
		t.Errorf("a permit that was never taken: %+v, %v", o, err)
	}
	for _, want := range []bool{true, false} {
		if had, err := s.parts.Policies.ReleasePermit(1, both); err != nil || had != want {
			t.Errorf("released %v, %v, want %v", had, err, want)
		}
	}
}
