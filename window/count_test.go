package window

import (
	"math"
	"testing"
)

func TestCountsAndRatesSayWhatIsKnown(t *testing.T) {
	for _, s := range []struct {
		c           Count
		count, rate string // over two seconds
		exact       bool
	}{
		{Exactly(3), "3", "1.5", true},
		{Count{Lower: 2, Estimate: 3, Upper: 5}, "3 (2 to 5)", "1.5 (1 to 2.5)", false},
		{Exactly(3).AtLeast(), "3 or more", "1.5 or more", false},
		{Count{Lower: 2, Estimate: 3, Upper: 5}.AtLeast(), "3 (2 or more)", "1.5 (1 or more)", false},
		{Exactly(1).Plus(Exactly(2).AtLeast()), "3 or more", "1.5 or more", false},
		{Exactly(math.MaxUint64), "18446744073709551615 or more", "9.22337e+18 or more", false},
	} {
		r := s.c.Per(2)
		if s.c.String() != s.count || r.String() != s.rate || s.c.Exact() != s.exact || r.Exact() != s.exact || s.c.HasUpper() != r.HasUpper() {
			t.Errorf("%#v: %s, %s", s.c, s.c, r)
		}
	}
}
