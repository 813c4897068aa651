package weir

// horizon is the second at which the retention begins: hits at it or before are
// refused as too late, so that of a window which reaches back beyond it nobody
// knows how many hits it should have.
type horizon struct {
	second, retention int64
	slack             int64 // seconds by which the clocks of the node that asks and the one that answers may differ
}

// horizon is that of all keys, now.
func (e *Engine) horizon() horizon {
	return horizon{e.clock.Now() - e.clock.Retention, e.clock.Retention, e.clock.Ahead}
}

// limits the count of the window (at-seconds, at] to what is known. A window that
// is not longer than the retention may begin a little before it: the second may
// have changed since it was asked for, and of the hits that were taken it has all.
func (h horizon) limits(c Count, at, seconds int64) Count {
	from := max(at-seconds, -1) // nothing is before 1970
	if from < h.second && (seconds > h.retention || from < h.second-h.slack) {
		return c.AtLeast()
	}
	return c
}
