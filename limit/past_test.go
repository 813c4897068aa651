package limit

import (
	"testing"
	"time"
)

// A short interval in between is no way to a fresh allowance of a long one, however
// often, and what it admits counts too.
func TestShortInBetween(t *testing.T) {
	for _, a := range []Algorithm{Window, Fixed, GCRA} {
		for _, n := range []uint64{10, 100} {
			long := plan(t, Limit{N: n, Per: time.Hour, Algorithm: a})
			short := plan(t, Limit{N: 20, Per: time.Second, Algorithm: a})
			now := epoch / int64(time.Hour) * int64(time.Hour)
			s := new(State)
			p := long
			turn := func(to *Plan) {
				s = copied(t, p, s)
				to.Adopt(s, p, now)
				p = to
			}
			var admitted uint64
			for range 50 {
				for long.Allow(s, now, 1) {
					admitted++
				}
				turn(short)
				now += int64(30 * time.Second)
				if !s.HasPast() || p.Idle(s, now) {
					t.Fatalf("%v %d: idle, or no past, while the hour matters", a, n)
				}
				turn(long)
			}
			if admitted != n {
				t.Errorf("%v: %d admitted of %d per hour", a, admitted, n)
			}
			now += int64(time.Hour) + int64(time.Hour)/16
			turn(short)
			if s.HasPast() || !p.Idle(s, now) {
				t.Errorf("%v %d: not idle when all is over", a, n)
			}

			turn(long)
			if !long.Allow(s, now, 1) {
				t.Errorf("%v %d: locked out", a, n)
			}
			turn(short)
			now += int64(time.Minute)
			short.Allow(s, now, 5)
			now += int64(time.Minute)
			if turn(long); long.Peek(s, now, 0).Remaining != n-6 {
				t.Errorf("%v %d: %+v, want %d", a, n, long.Peek(s, now, 0), n-6)
			}
		}
	}
}

// A busy key is as small as ever once the longer limits have not been in use for their
// intervals, one after the other.
func TestPastLapses(t *testing.T) {
	hour, minute, second := plan(t, Limit{N: 10, Per: time.Hour}), plan(t, Limit{N: 10, Per: time.Minute}), plan(t, Limit{N: 10, Per: time.Second})
	for name, c := range map[string]struct {
		minuteAt, lapsed time.Duration
	}{
		"hour, second":         {0, time.Hour},
		"hour, minute, second": {59*time.Minute + 30*time.Second, time.Hour + time.Minute},
	} {
		var s State
		hour.Allow(&s, epoch, 10)
		second.Adopt(&s, hour, epoch)
		for after := time.Second; after < c.lapsed+2*time.Second; after += time.Second {
			now := epoch + int64(after)
			if after == c.minuteAt {
				minute.Adopt(&s, second, now)
				second.Adopt(&s, minute, now)
			}
			if !second.Allow(&s, now, 1) {
				t.Fatalf("%s: denied after %v", name, after)
			}
			if s.HasPast() != (after < c.lapsed) {
				t.Fatalf("%s: a past: %v, after %v", name, s.HasPast(), after)
			}
		}
		if s.Size() > 128 {
			t.Errorf("%s: %d bytes", name, s.Size())
		}
	}
}

// However a past's reach grows, no time in it moves on by more than a sub-slot of the
// longest, while admissions go on.
func TestPastStaysWhereItIs(t *testing.T) {
	for seed := range uint64(200) {
		r := source(seed)
		p := plan(t, Limit{N: 10, Per: time.Second})
		var s State
		matters := reach{p.interval, epoch, 0}
		s.pastBegin(matters, nil)
		s.past.add(epoch, 1)
		now := epoch
		for matters.interval < int64(time.Minute) {
			for range 50 {
				now += r.Int64N(matters.interval / 2000) // within the reach throughout
				s.past.add(now, 1)
			}
			matters = matters.with(matters.interval+r.Int64N(matters.interval/10), now)
			s.pastBegin(matters, s.past.list())
			if oldest := s.past.list()[0]; oldest.at-epoch > matters.interval/8 {
				t.Fatalf("seed %d: the first of %d counts as %v later, of %v", seed, oldest.n, time.Duration(oldest.at-epoch), time.Duration(matters.interval))
			}
		}
	}
}

func TestEarlier(t *testing.T) {
	past := []admissions{{10, 3}, {20, 2}, {30, 4}}
	form := []admissions{{15, 1}, {31, 2}}
	got := earlier(nil, past, form, 12)
	want := []admissions{{10, 3}, {12, 2}, {12, 1}, {15, 1}, {30, 2}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
