package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// One caller asks engines that follow each other, each made from what the one
// before left in a journal: a state now and then, and the admissions since. The
// whole never admits more than the burst in any interval.
func TestLimitsGoOnFromStatesAndAdmissions(t *testing.T) {
	for _, l := range []Limit{
		{N: 3, Per: time.Minute}, {N: 16, Per: 2 * time.Minute}, {N: 100, Per: time.Minute}, {N: 60, Per: time.Hour, Burst: 5},
		{N: 5, Per: time.Minute, Algorithm: limit.GCRA}, {N: 5, Per: time.Minute, Algorithm: limit.Fixed},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			for seed := range uint64(20) {
				goOnFromJournal(t, l, rand.New(rand.NewPCG(seed, 7)))
			}
		})
	}
}

func goOnFromJournal(t *testing.T, l Limit, random *rand.Rand) {
	t.Helper()
	j, now := newJournaled(t)
	kl := mustLimit(t, j.e, "x", l)
	interval, burst := intervalOf(t, kl.Limit()), kl.Limit().Burst
	var admitted []int64
	for range 2000 {
		now.Add(random.Int64N(int64(interval) / int64(burst)))
		if kl.Allow("k") {
			admitted = append(admitted, now.Load())
		}
		if j.live(random.IntN(40)) {
			kl = mustLimit(t, j.e, "x", l)
		}
	}
	if len(admitted) < 100 {
		t.Errorf("%d admitted in all: a restart locks out", len(admitted))
	}
	most := burst
	switch l.Algorithm {
	case limit.Fixed:
		most = 2 * burst
	case limit.GCRA:
		most = 2*burst - 1
	}
	for first, last := 0, 0; last < len(admitted); last++ {
		for admitted[first] <= admitted[last]-int64(interval) {
			first++
		}
		if uint64(last-first+1) > most {
			t.Fatalf("%d admitted within %v, at most %d may be", last-first+1, interval, most)
		}
	}
}

// A state that is loaded says what the one that was saved did.
func TestLimitStatesAreLoadedAsTheyWere(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 1, Gather: true})
	kl := mustLimit(t, e, "per-hour", Limit{N: 40, Per: time.Hour})
	short := mustLimit(t, e, "per-second", Limit{N: 1, Per: time.Second})
	for i := range 40 {
		now.Add(int64(time.Second))
		kl.AllowN(fmt.Sprint("k", i), uint64(i))
		short.Allow("k")
	}
	var c replication.Cut
	e.Cut(0, &c, true)
	fresh, at := limitEngine(t, Config{Partitions: 1, Gather: true})
	at.Store(now.Load())
	if err := fresh.LoadState(0, c.State, 0); err != nil {
		t.Fatal(err)
	}
	again := mustLimit(t, fresh, "per-hour", Limit{N: 40, Per: time.Hour})
	for i := range 40 {
		want, _ := kl.Peek(fmt.Sprint("k", i), 1)
		if got, err := again.Peek(fmt.Sprint("k", i), 1); err != nil || got != want {
			t.Errorf("k%d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	if got := fresh.Stats().LimitStates; got != 39 { // k0 used nothing
		t.Errorf("%d states, want 39: those of a second do not survive", got)
	}
	if fresh.Stats().LimitBytes == 0 {
		t.Error("loaded states take no memory")
	}
}

// A clock that was ahead when the state was saved locks nobody out for longer
// than the limit's interval.
func TestLimitStateFromTheFuture(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		e, now := limitEngine(t, Config{Partitions: 1, Gather: true})
		l := Limit{N: 20, Per: time.Minute, Algorithm: algorithm}
		now.Add(int64(24 * time.Hour))
		mustLimit(t, e, "x", l).AllowN("k", 20)
		var c replication.Cut
		e.Cut(0, &c, true)
		fresh, at := limitEngine(t, Config{Partitions: 1, Gather: true})
		if err := fresh.LoadState(0, c.State, 0); err != nil {
			t.Fatal(err)
		}
		kl := mustLimit(t, fresh, "x", l)
		if kl.Allow("k") {
			t.Errorf("%v: a fresh allowance", algorithm)
		}
		at.Add(int64(70 * time.Second))
		if !kl.Allow("k") {
			t.Errorf("%v: locked out after more than the interval", algorithm)
		}
	}
}
