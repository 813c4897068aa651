package engine

import (
	"testing"
	"time"
)

// The time of day was set forward after a state and a receipt were written, which who reads
// them knows: they count from when they were made.
func TestAStateFromBeforeTheClockWasSet(t *testing.T) {
	const step = 2 * time.Hour
	clocks := &twoClocks{}
	l := Limit{N: 5, Per: time.Hour}
	e := clocks.engine(t)
	if got := admissions(mustLimit(t, e, "l", l), "k", 9); got != 5 {
		t.Fatalf("%d admitted, want 5", got)
	}
	applied := 0
	apply := func() []byte { applied++; return []byte("answer") }
	if _, _, err := e.OnceFrom(t.Context(), "", "order", 1, apply); err != nil {
		t.Fatal(err)
	}
	state, receipts := stateOf(e), e.Receipts().All()
	clocks.wrong += step
	clocks.elapsed += time.Minute
	next := clocks.engine(t)
	if err := next.LoadState(0, state, step); err != nil {
		t.Fatal(err)
	}
	if err := next.Receipts().Load(receipts, false, step); err != nil {
		t.Fatal(err)
	}
	if v, err := mustLimit(t, next, "l", l).Peek("k", 1); err != nil || v.Allowed || v.RetryAfter > 59*time.Minute+time.Second || v.RetryAfter < 59*time.Minute {
		t.Errorf("%+v, %v: want it in 59 minutes", v, err)
	}
	if _, repeated, err := next.OnceFrom(t.Context(), "", "order", 1, apply); err != nil || !repeated || applied != 1 {
		t.Errorf("the request was applied %d times, %v", applied, err)
	}
}
