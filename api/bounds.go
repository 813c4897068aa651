package api

import (
	"fmt"
	"strconv"
)

// Bounds is a count: Lower <= the true number <= *Upper, of all hits that any node
// took until the AsOf of the answer.
type Bounds struct {
	Lower    uint64  `json:"lower" doc:"The true number is not below this."`
	Estimate uint64  `json:"estimate" doc:"The best guess between lower and upper."`
	Upper    *uint64 `json:"upper" nullable:"true" doc:"The true number of the hits taken until as_of is not above this. null: no upper bound is known, for a node is late, or the window reaches back beyond the retention."`
	Exact    bool    `json:"exact" doc:"lower = upper: the true number of the hits that were taken until as_of."`
}

// HasUpper tells whether an upper bound is known. Without one the true number may
// be any from Lower up.
func (b Bounds) HasUpper() bool { return b.Upper != nil }

// String is the number, with what is known of it: "12", "12 (10 to 15)", or without
// an upper bound "12 or more" and "12 (10 or more)".
func (b Bounds) String() string {
	switch {
	case b.Exact:
		return strconv.FormatUint(b.Estimate, 10)
	case b.HasUpper():
		return fmt.Sprintf("%d (%d to %d)", b.Estimate, b.Lower, *b.Upper)
	case b.Lower == b.Estimate:
		return fmt.Sprintf("%d or more", b.Lower)
	}
	return fmt.Sprintf("%d (%d or more)", b.Estimate, b.Lower)
}

// Per is the mean rate of a count over a window of so many seconds, 1 or more.
func (b Bounds) Per(seconds int64) PerSecond {
	w := float64(seconds)
	r := PerSecond{Lower: float64(b.Lower) / w, Estimate: float64(b.Estimate) / w}
	if b.Upper != nil {
		upper := float64(*b.Upper) / w
		r.Upper = &upper
	}
	return r
}

// PerSecond is the mean rate of a count over its window, with its bounds.
type PerSecond struct {
	Lower    float64  `json:"lower"`
	Estimate float64  `json:"estimate"`
	Upper    *float64 `json:"upper" nullable:"true" doc:"null: no upper bound is known."`
}

// String is the rate as Bounds.String writes a count, with three decimals.
func (p PerSecond) String() string {
	switch {
	case p.Upper == nil && p.Lower == p.Estimate:
		return fmt.Sprintf("%.3f or more", p.Lower)
	case p.Upper == nil:
		return fmt.Sprintf("%.3f (%.3f or more)", p.Estimate, p.Lower)
	case p.Lower == *p.Upper:
		return fmt.Sprintf("%.3f", p.Estimate)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", p.Estimate, p.Lower, *p.Upper)
}
