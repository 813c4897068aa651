package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// twoClocks are a machine's: the time since its boot, and a time of day that is set.
type twoClocks struct{ elapsed, wrong time.Duration }

func (c *twoClocks) now() time.Time {
	return time.Unix(1_700_000_000, 0).Add(c.elapsed + c.wrong)
}

func (c *twoClocks) engine(t *testing.T) *Engine {
	return newTestEngine(t, Config{Partitions: 1, Gather: true, Now: c.now, Elapsed: func() time.Duration { return c.elapsed }})
}

// Steps of a node's clock: whatever it shows, a limit admits its burst in an interval, no
// more and no less; also in the next life, from a snapshot that was taken after the step.
func TestLimitsWhenTheClockIsSet(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour, 30 * time.Second} {
		for _, algorithm := range []limit.Algorithm{limit.Window, limit.GCRA} {
			t.Run(fmt.Sprint(step, algorithm), func(t *testing.T) {
				clocks := &twoClocks{}
				e := clocks.engine(t)
				l := Limit{N: 5, Per: 10 * time.Minute, Algorithm: algorithm}
				kl := mustLimit(t, e, "l", l)
				if got := admissions(kl, "k", 9); got != 5 {
					t.Fatalf("%d admitted, want 5", got)
				}
				clocks.elapsed += time.Minute
				clocks.wrong = step
				if got := admissions(kl, "k", 9); got != 0 {
					t.Errorf("%d admitted after the step", got)
				}
				if behind := e.LimitClockBehind(); behind != step {
					t.Errorf("behind by %v", behind)
				}
				clocks.elapsed += time.Minute - time.Millisecond
				state := stateOf(e)
				next := clocks.engine(t)
				if err := next.LoadState(0, state, 0); err != nil {
					t.Fatal(err)
				}
				for life, e := range []*Engine{e, next} {
					kl := mustLimit(t, e, "l", l)
					v, err := kl.Peek("k", 5)
					if err != nil || v.Allowed || v.RetryAfter > 8*time.Minute+time.Second || v.RetryAfter < 8*time.Minute {
						t.Errorf("life %d: %+v, %v: want it in 8 minutes", life, v, err)
					}
				}
				clocks.elapsed += 8*time.Minute + time.Second
				for life, e := range []*Engine{e, next} {
					if got := admissions(mustLimit(t, e, "l", l), "k", 9); got != 5 {
						t.Errorf("life %d: %d admitted after the interval, want 5", life, got)
					}
				}
			})
		}
	}
}

// Many lives of one machine whose clock is set while they run: never over, by brute force,
// and never locked out. Each begins with the state and the admissions of the one before;
// those that were reported before a step of the clock are in the state.
func TestLimitsInManyLivesOfAClockThatIsSet(t *testing.T) {
	for _, l := range []Limit{
		{N: 3, Per: time.Minute}, {N: 100, Per: time.Minute}, {N: 5, Per: time.Minute, Algorithm: limit.GCRA},
	} {
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 8))
			clocks := &twoClocks{}
			e := clocks.engine(t)
			kl := mustLimit(t, e, "x", l)
			interval, burst := intervalOf(t, kl.Limit()), kl.Limit().Burst
			var admitted []int64
			var c replication.Cut
			for range 1500 {
				clocks.elapsed += time.Duration(random.Int64N(int64(interval) / int64(burst)))
				if kl.Allow("k") {
					admitted = append(admitted, int64(clocks.elapsed))
				}
				switch random.IntN(60) {
				case 0:
					clocks.wrong = time.Duration(random.Int64N(int64(8*time.Hour))) - 4*time.Hour
				case 1:
					state := append([]byte(nil), stateOf(e)...)
					clocks.elapsed += time.Duration(random.Int64N(int64(interval)))
					if kl.Allow("k") {
						admitted = append(admitted, int64(clocks.elapsed))
					}
					e.Cut(0, &c, false)
					next := clocks.engine(t)
					if err := next.LoadState(0, state, 0); err != nil {
						t.Fatal(err)
					}
					if err := next.Limits().ApplyAdmissions(0, c.Admissions); err != nil {
						t.Fatal(err)
					}
					e, kl = next, mustLimit(t, next, "x", l)
				}
			}
			most := burst
			if l.Algorithm == limit.GCRA {
				most = 2*burst - 1
			}
			for first, last := 0, 0; last < len(admitted); last++ {
				for admitted[first] <= admitted[last]-int64(interval) {
					first++
				}
				if uint64(last-first+1) > most {
					t.Fatalf("%+v, seed %d: %d admitted within %v, at most %d may be", l, seed, last-first+1, interval, most)
				}
			}
			if len(admitted) < 300 {
				t.Errorf("%+v, seed %d: %d admitted in all: a step locks out", l, seed, len(admitted))
			}
		}
	}
}

func intervalOf(t *testing.T, l Limit) time.Duration {
	t.Helper()
	plan, err := limit.New(l)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Interval()
}
