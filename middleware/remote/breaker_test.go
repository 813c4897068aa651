package remote

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/middleware"
)

var errAway = errors.New("connection refused")

// ask asks once, and tells whether it was let.
func (b *breaker) ask(o outcome) bool {
	t, err := b.enter()
	if err != nil {
		return false
	}
	b.done(t, o, errAway)
	return true
}

func (b *breaker) fail(t *testing.T, n int) {
	t.Helper()
	for range n {
		if !b.ask(failed) {
			t.Fatal("paused early")
		}
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker{pause: time.Second}
		b.fail(t, failuresToPause)
		_, err := b.enter()
		if !errors.Is(err, middleware.ErrUnavailable) || !errors.Is(err, errAway) || !strings.Contains(err.Error(), "not asked for a while") {
			t.Fatalf("no pause: %v", err)
		}
		for range 5 { // a failure of the one begins the next pause
			time.Sleep(time.Second - 1)
			if b.ask(failed) {
				t.Fatal("asked within the pause")
			}
			time.Sleep(time.Nanosecond)
			if !b.ask(failed) || b.ask(failed) {
				t.Fatal("one asks after a pause")
			}
		}
		time.Sleep(time.Second)
		if !b.ask(answered) {
			t.Fatal("none asks after a pause")
		}
		b.fail(t, failuresToPause) // as many as in the beginning
	})
}

func TestOneTriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker{pause: time.Second}
		b.fail(t, failuresToPause)
		time.Sleep(time.Second)
		one, err := b.enter()
		if err != nil || !one.try {
			t.Fatalf("%+v %v", one, err)
		}
		time.Sleep(time.Minute)
		if b.ask(answered) {
			t.Fatal("a second one")
		}
		b.done(one, abandoned, nil) // it went away: another tries at once
		for range 2 {
			if !b.ask(answered) {
				t.Fatal("none tries after one that went away")
			}
		}
	})
}

func TestFailuresInARow(t *testing.T) {
	b := breaker{pause: time.Second}
	for range 10 {
		b.fail(t, failuresToPause-1)
		b.ask(abandoned)
		b.ask(answered)
	}
	b.fail(t, failuresToPause)
	if b.ask(answered) {
		t.Fatal("no pause")
	}
}

// What was begun before a pause, or before its end, neither ends nor begins one.
func TestLateOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker{pause: time.Second}
		var early []ticket
		for range 10 {
			e, err := b.enter()
			if err != nil {
				t.Fatal(err)
			}
			early = append(early, e)
		}
		b.fail(t, failuresToPause)
		time.Sleep(time.Second - 1)
		b.done(early[0], answered, nil)
		b.done(early[1], failed, errAway)
		if b.ask(answered) {
			t.Fatal("a late answer ended the pause")
		}
		time.Sleep(time.Nanosecond)
		if !b.ask(answered) {
			t.Fatal("a late failure made the pause longer")
		}
		for _, e := range early[2:] {
			b.done(e, failed, errAway)
		}
		if !b.ask(answered) {
			t.Fatal("late failures began a pause")
		}
	})
}
