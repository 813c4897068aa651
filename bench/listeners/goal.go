package main

// goal is what a median may cost at most: a part of that of the row to compare with, or so many microseconds. The zero goal is none.
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
