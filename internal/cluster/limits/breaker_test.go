package limits

import (
	"testing"
	"time"
)

// One slow answer keeps requests from the holder for a moment, not for a second; a holder that stays away is tried by
// one request at a time, ever less often.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var b breaker
	began := time.Unix(1000, 0)
	now := began.Add(250 * time.Millisecond)
	for range 32 { // asked together
		if !b.enter(began) {
			t.Fatal("nobody has failed yet")
		}
	}
	for range 32 {
		b.leave(began, now, false, true)
	}
	if b.enter(now) || b.enter(now.Add(breakerLeast-1)) {
		t.Error("asked at once after a question without an answer")
	}
	now = now.Add(breakerLeast)
	if !b.enter(now) || b.enter(now) {
		t.Error("after the rest one request tries, not none, and not two")
	}
	for rest := 2 * breakerLeast; rest < 4*time.Second; rest *= 2 {
		asked := now
		now = now.Add(250 * time.Millisecond)
		b.leave(asked, now, false, true)
		rests := min(rest, breakerTime)
		if b.enter(now.Add(rests-1)) || !b.enter(now.Add(rests)) {
			t.Errorf("the rest is not %v", rests)
		}
		now = now.Add(rests)
	}
	b.leave(now, now, false, false) // nobody listens
	if !b.enter(now) {
		t.Error("a trial that failed at once keeps the next one away")
	}
	b.leave(now, now, true, false)
	for range 3 {
		if !b.enter(now) {
			t.Error("an answer did not end the rest")
		}
	}
}
