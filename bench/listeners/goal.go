package main

// goal is the highest median cost allowed: a ratio to the row it is compared with, or a number of microseconds. The
// zero goal sets no bound.
type goal struct {
	text   string
	ratio  float64 // 0: none
	micros float64 // 0: none
}

// said is the goal, and whether it is reached.
func (g goal) said(median, base float64) string {
	switch {
	case g == goal{}:
		return ""
	case g.ratio > 0 && median > g.ratio*base, g.micros > 0 && median > g.micros:
		return g.text + ": missed"
	}
	return g.text + ": reached"
}
