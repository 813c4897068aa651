package limit

import (
	"testing"
	"time"
)

// A state that was moved to another clock decides as one that was always kept by it, or
// is stricter: never over, by brute force, and no longer locked out than a sub-slot or an
// interval of Fixed more.
func TestShiftNeverOver(t *testing.T) {
	for seed := range uint64(600) {
		r := source(seed)
		l := coded[r.IntN(len(coded))]
		if r.IntN(3) == 0 {
			l = Limit{N: 1 + r.Uint64N(60), Per: time.Minute, Burst: 1 + r.Uint64N(60)}
		}
		p := plan(t, l)
		var s, same State
		now := epoch + r.Int64N(p.interval)
		var known []admissions
		off := int64(0) // the state's clock less the true one
		for range 300 {
			now = randomTime(r, p, now, false)
			if r.IntN(20) == 0 {
				span := min(p.interval, int64(24*time.Hour))
				by := r.Int64N(4*span) - 2*span
				p.Shift(&s, by)
				off += by
				p.Adopt(&s, p, now+off)
			}
			n := randomCount(r, p)
			if n == 0 {
				continue
			}
			if p.form == gcra {
				if got, want := p.Allow(&s, now+off, n), p.Allow(&same, now, n); got != want {
					t.Fatalf("seed %d: %+v: %v after shifts, %v without", seed, l, got, want)
				}
				continue
			}
			if !p.Allow(&s, now+off, n) {
				continue
			}
			known = append(known, admissions{now, n})
			var sum uint64
			for _, a := range known {
				if a.at > now-p.interval {
					sum += a.n
				}
			}
			most := p.limit.Burst
			if p.form == fixed {
				most *= 2
			}
			if sum > most {
				t.Fatalf("seed %d: %+v: %d within the interval", seed, l, sum)
			}
		}
		if p.interval > int64(MaxPer) {
			continue
		}
		if p.Allow(&s, now+off+2*p.interval, 1); p.form == log && !p.Allow(&s, now+off+4*p.interval, p.limit.Burst) {
			t.Fatalf("seed %d: %+v: locked out", seed, l)
		}
	}
}

// A past is moved too: a wider limit that comes back after a shift knows all.
func TestShiftKeepsThePast(t *testing.T) {
	wide, narrow := plan(t, Limit{N: 10, Per: time.Hour}), plan(t, Limit{N: 10, Per: time.Second})
	for _, by := range []int64{int64(2 * time.Hour), -int64(2 * time.Hour), 365 * 24 * int64(time.Hour)} {
		var s State
		now := epoch
		wide.Take(&s, now, 10)
		narrow.Adopt(&s, wide, now)
		narrow.Shift(&s, by)
		now += by + int64(10*time.Minute)
		wide.Adopt(&s, narrow, now)
		if v := wide.Peek(&s, now, 1); v.Allowed {
			t.Errorf("by %v: %+v", time.Duration(by), v)
		}
	}
}

func FuzzShift(f *testing.F) {
	for form, l := range coded {
		p := plan(f, l)
		var s State
		for step := range int64(40) {
			p.Allow(&s, epoch+step*p.interval/30, 1)
		}
		f.Add(uint8(form), p.AppendState(nil, &s), int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, form uint8, b []byte, by int64) {
		p := plan(t, coded[int(form)%len(coded)])
		var s State
		if _, err := p.DecodeState(&s, b); err != nil {
			return
		}
		p.Shift(&s, by)
		repaired(t, p, &s, epoch)
		copied(t, p, &s)
		p.Allow(&s, epoch, 1)
	})
}
