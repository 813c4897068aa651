package replica

import (
	"testing"
	"time"
)

func TestJudgeClocks(t *testing.T) {
	const h, ms = time.Hour, time.Millisecond
	for _, c := range []struct {
		others []time.Duration
		want   ClockVerdict
	}{
		{nil, ClockVerdict{}},
		{[]time.Duration{100 * ms}, ClockVerdict{}},
		{[]time.Duration{h}, ClockVerdict{Spread: h}},
		{[]time.Duration{h, h + ms}, ClockVerdict{Correction: h + ms}},
		{[]time.Duration{-h, -h - ms}, ClockVerdict{Correction: -h}},
		{[]time.Duration{0, h}, ClockVerdict{}},
		{[]time.Duration{-h, h}, ClockVerdict{Spread: 2 * h}},
		{[]time.Duration{-h, h, h}, ClockVerdict{Spread: 2 * h}},
		{[]time.Duration{h, h, h, -h}, ClockVerdict{Correction: h}},
		{[]time.Duration{400 * ms, 700 * ms}, ClockVerdict{}},
	} {
		var others []Clock
		for _, skew := range c.others {
			others = append(others, Clock{Skew: skew})
		}
		c.want.Compared = len(others)
		if got := JudgeClocks(others); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.others, got, c.want)
		}
	}
}
