package window

// WithRetention returns a copy that keeps hits for another time, in seconds as in New. Hits that
// are older than a shorter one are among those that have left. For a longer one nothing
// comes back: gone are the hits that had left, at least w's retention before its newest
// hit. Windows that reach back that far may have had them, and k does not say so until
// they reach beyond its own retention.
func (w *Window) WithRetention(retention int64) (k Window, gone uint64, err error) {
	if k, err = New(retention); err != nil || w.empty() {
		return k, 0, err
	}
	newest := w.newest()
	k.setNewest(newest)
	if w.dense == nil {
		k.keep(w.pairs().trim(newest, newest-k.Retention()))
		if k.Retention() > w.Retention() {
			_, gone = k.pairs().list(newest)
		}
		return k, gone, nil
	}
	k.dense = newPyramid(k.Retention(), w.dense.older)
	levels := min(w.dense.levels(), 1+k.dense.top)
	k.dense.readings = w.dense.readings.clone(baseSlots + (levels-1)*upperSlots)
	if k.dense.top > w.dense.top {
		k.dense.letGo(newest, w.dense.top)
	}
	if k.Retention() > w.Retention() {
		gone = k.dense.older
	}
	return k, gone, nil
}

// letGo moves the hits before the oldest boundary of a level, which was the highest, to
// those that have left: higher levels would take them for hits of their oldest slot.
func (p *pyramid) letGo(newest int64, level int) {
	low, _ := span(level, newest)
	if gone := p.value(level, low); gone > 0 {
		left := newReadings()
		left.resize(p.readings.len())
		p.each(newest, func(level, place int) bool {
			reading := p.readings.get(level, place)
			left.set(level, place, reading-min(gone, reading))
			return true
		})
		p.readings = left
		p.older = addSat(p.older, gone)
	}
	for p.levels() > 1 {
		if _, high := span(p.levels()-1, newest); p.value(p.levels()-1, high) > 0 {
			return
		}
		p.readings.resize(p.readings.len() - upperSlots)
	}
}
