package window

import (
	"fmt"
	"slices"
)

// Clone returns an independent copy.
func (w *Window) Clone() Window {
	c := Window{head: w.head}
	c.keep(slices.Clone(w.pairs()))
	if w.dense != nil {
		dense := *w.dense
		dense.readings = dense.readings.clone(dense.readings.len())
		c.dense = &dense
	}
	return c
}

// Merge adds all hits of o, which stays as it is: the result is the window of
// the hits of both. The two must keep hits for the same time, or Merge returns
// an error and changes nothing. O(slots of both).
func (w *Window) Merge(o *Window) error {
	if w.Retention() != o.Retention() {
		return fmt.Errorf("window: merge of a window kept for %d s into one kept for %d s: give both the same retention", o.Retention(), w.Retention())
	}
	switch {
	case o.empty():
	case w.empty():
		*w = o.Clone()
	case o.dense == nil:
		w.mergePairs(o)
	default:
		if w.dense == nil {
			w.promote()
		}
		w.mergeDense(o)
	}
	return nil
}

func (w *Window) mergePairs(o *Window) {
	list, older := o.pairs().list(o.newest())
	for _, p := range slices.Backward(list) {
		if w.dense != nil {
			w.addDense(p.at, p.n)
		} else {
			w.addPair(p.at, p.n)
		}
	}
	if w.dense != nil {
		w.dense.older = addSat(w.dense.older, older)
		return
	}
	mine, had := w.pairs().list(w.newest())
	w.keep(packPairs(mine, addSat(had, older)))
	if addSat(had, older) > 0 { // no pair may be older than the hits that have left
		w.keep(w.pairs().trim(w.newest(), w.newest()-w.Retention()))
	}
	w.bound()
}

// mergeDense brings both pyramids to the same newest second, where they have
// the same boundaries, and adds their readings.
func (w *Window) mergeDense(o *Window) {
	if w.newest() < o.newest() {
		w.dense.advance(w.newest(), o.newest())
		w.setNewest(o.newest())
	} else if o.newest() < w.newest() {
		ahead := o.Clone()
		ahead.dense.advance(o.newest(), w.newest())
		o = &ahead
	}
	for w.dense.levels() < o.dense.levels() {
		w.dense.grow()
	}
	w.dense.readings.room(addSat(w.dense.total(w.newest()), o.dense.total(w.newest())))
	for level := range o.dense.levels() {
		w.dense.readings.raiseAll(level, o.dense.readings.bases[level])
	}
	o.dense.each(w.newest(), func(level, place int) bool {
		w.dense.readings.raise(place, o.dense.readings.get(level, place)-o.dense.readings.bases[level])
		return true
	})
	w.dense.older = addSat(w.dense.older, o.dense.older)
}
