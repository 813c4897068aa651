package window

import (
	"fmt"
	"math"
)

// Rate is a Count per second of its window: Lower <= truth <= Upper, and Estimate
// between them. An Upper of +Inf says that no upper bound is known.
type Rate struct {
	Lower, Estimate, Upper float64
}

// Per is the mean rate of a count over a window of seconds, at least one.
func (c Count) Per(seconds int64) Rate {
	w := float64(seconds)
	r := Rate{float64(c.Lower) / w, float64(c.Estimate) / w, float64(c.Upper) / w}
	if !c.HasUpper() {
		r.Upper = math.Inf(1)
	}
	return r
}

// Exact tells whether nothing is in doubt: Lower = Estimate = Upper.
func (r Rate) Exact() bool { return r.Lower == r.Upper }

// HasUpper tells whether Upper is a bound.
func (r Rate) HasUpper() bool { return !math.IsInf(r.Upper, 1) }

// String is the rate, with what is known of it: "1.5", "1.5 (1.4 to 1.7)", or
// without an upper bound "1.5 or more" and "1.5 (1.4 or more)".
func (r Rate) String() string {
	switch {
	case r.Exact():
		return fmt.Sprintf("%.6g", r.Estimate)
	case r.HasUpper():
		return fmt.Sprintf("%.6g (%.6g to %.6g)", r.Estimate, r.Lower, r.Upper)
	case r.Lower == r.Estimate:
		return fmt.Sprintf("%.6g or more", r.Lower)
	}
	return fmt.Sprintf("%.6g (%.6g or more)", r.Estimate, r.Lower)
}
