package keyspace

import (
	"testing"
	"time"
)

// At says of a moment what Now and Ahead say around it, also once the clock was corrected.
func TestAt(t *testing.T) {
	t.Parallel()
	stands := time.Unix(1_769_860_800, 0)
	for name, source := range map[string]func() time.Time{"system": nil, "source": func() time.Time { return stands }} {
		for _, correction := range []time.Duration{0, time.Hour, -time.Minute} {
			wall := &Wall{Source: source}
			limits := NewClockLimits(source, nil, wall)
			wall.Correct(correction)
			before := limits.Now()
			now, ahead := limits.At(wall.Raw())
			if after := limits.Now(); now < before || now > after {
				t.Errorf("%s, %v: %d, not within %d to %d", name, correction, now, before, after)
			}
			if want := limits.Ahead(); time.Duration(ahead-want).Abs() > time.Second {
				t.Errorf("%s, %v: %v ahead, want %v", name, correction, time.Duration(ahead), time.Duration(want))
			}
		}
	}
}
