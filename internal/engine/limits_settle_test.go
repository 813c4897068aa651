package engine

import (
	"fmt"
	"testing"
	"time"
)

// A reservation that is settled late gives back what was not used, whatever was admitted since: here, where it is followed and after
// kill -9. A Window with a burst above 256 has admissions together at the latest of their times, so it must not be asked for that time.
func TestSettleLongAfterTheReservation(t *testing.T) {
	for _, l := range []Limit{{N: 1_000_000, Per: 366 * 24 * time.Hour}, {N: 1000, Per: time.Hour}, {N: 200, Per: time.Hour}} {
		for _, flushed := range []bool{false, true} {
			c, pass := newChanged(t)
			kl := mustLimit(t, c.e, "x", l)
			for i := range 5 {
				if v, err := kl.Reserve("k", 10, Reservation{ID: fmt.Sprint(i), Until: c.cfg.Now().Add(time.Hour)}); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
				pass(time.Second)
			}
			if flushed {
				c.flush(false)
			}
			pass(10 * time.Second)
			kl.AllowN("k", 8)
			c.flush(flushed)
			c.e = c.restarted()
			kl = mustLimit(t, c.e, "x", l)
			for i := range 5 {
				if done, err := kl.Settle("k", fmt.Sprint(i), 3, false); err != nil || done.Freed != 7 {
					t.Errorf("%+v: reservation %d: %+v, %v", l, i, done, err)
				}
			}
			c.flush(false)
			c.left("x", l, l.N-23)
		}
	}
}
