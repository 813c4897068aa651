package resp

import (
	"math"
	"testing"
	"time"
)

// A limit of a rate never admits more than the rate.
func TestLimitOfRate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		perSecond float64
		n         uint64
		per       time.Duration
	}{
		{100, 100, time.Second}, {1e6, 1e6, time.Second}, {0.5, 30, time.Minute}, {float64(5) / 60, 5, time.Minute}, {float64(100) / 90, 4000, time.Hour},
		{1.0 / 86400, 1, 24 * time.Hour}, {math.Pi, 1, 318309886 * time.Nanosecond}, {1000 * math.Pi, 3141, time.Second},
	} {
		l, ok := limitOfRate(tc.perSecond)
		if !ok || l.N != tc.n || l.Per != tc.per {
			t.Errorf("%g: %+v, %v", tc.perSecond, l, ok)
		}
		if rate := float64(l.N) / l.Per.Seconds(); rate > tc.perSecond*(1+1e-8) {
			t.Errorf("%g: a limit of %g", tc.perSecond, rate)
		}
	}
}
