package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// Hits by a clock that is not set are refused with an error, not lost.
func TestHitByAnOddClock(t *testing.T) {
	for _, now := range []time.Time{{}, unix(-5), unix(1 << 40)} {
		for _, kind := range []Clock{WallClock, EventClock} {
			e := newTestEngine(t, Config{Clock: kind, Now: func() time.Time { return now }})
			wantCode(t, e.Hit("a"), api.CodeInvalidTime)
		}
	}
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Retention: 10 * time.Minute, Now: func() time.Time { return now }})
	if err := e.Hit("a"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	if err := e.Hit("a"); err != nil {
		t.Errorf("an hour back, with a retention of ten minutes: %v", err)
	}
}
