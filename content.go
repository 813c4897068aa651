package weir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// Content is what the state of a partition has (Cut), apart from the engine that it is
// of: for one with other partitions or another retention, or one that has hits already.
type Content struct {
	Partitions int           // of the engine it is of
	Partition  int           // which of them
	Retention  time.Duration // of that engine

	Total     window.Window // of all hits of the partition
	Keys      []KeyWindow   // by key, which may have several: of seconds that have not come
	Forgotten []Forgotten   // hits of evicted keys

	limits []restoredState
}

// KeyWindow is the hits of a key, or with the key "" those of all keys of a partition.
type KeyWindow struct {
	Key    string
	Window window.Window
}

// Forgotten is a place of the sketch of hits whose keys were evicted.
type Forgotten struct {
	Place  int    // 0 to ForgottenPlaces-1, or ForgottenOfAll
	Hits   uint64 // that may be of any key of the place
	Newest int64  // Unix second of the newest of them
}

// ForgottenPlaces is how many places a partition has for hits of evicted keys.
const ForgottenPlaces = forgottenDepth * forgottenWidth

// ForgottenOfAll is the place of hits that AllKeys lacks: they had left under a shorter
// retention than now. It is beside the sketch, and no key's.
const ForgottenOfAll = ForgottenPlaces

// ReadContent reads a state that Cut made. One that is damaged is an error that wraps
// ErrDamagedState.
func ReadContent(state []byte) (c Content, err error) {
	r, err := openState(state)
	if err != nil {
		return c, err
	}
	partitions, number, retention := r.Uvarint(), r.Uvarint(), r.Uvarint()
	s := r.partition()
	if !r.Done() || number >= partitions || retention > window.MaxSeconds {
		return c, errStateContent
	}
	c = Content{Partitions: int(partitions), Partition: int(number), Retention: time.Duration(retention) * time.Second, Total: s.total, limits: s.limits}
	for i, key := range s.keys {
		c.Keys = append(c.Keys, KeyWindow{key, s.windows[i]})
	}
	for i := range s.ahead {
		key := s.ahead[i].key
		if key == AllKeys {
			key = ""
		}
		c.Keys = append(c.Keys, KeyWindow{key, s.ahead[i].window})
	}
	slices.SortFunc(c.Keys, func(a, b KeyWindow) int {
		first, _ := a.Window.Newest()
		second, _ := b.Window.Newest()
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(first, second))
	})
	for i := range ForgottenPlaces {
		if s.forgotten == nil {
			break
		}
		if place := s.forgotten.place(i); place.hits.Load() > 0 {
			c.Forgotten = append(c.Forgotten, Forgotten{i, place.hits.Load(), place.newest.Load()})
		}
	}
	if s.all.Hits > 0 {
		c.Forgotten = append(c.Forgotten, s.all)
	}
	return c, nil
}

// openState checks the frame of a state, and returns a reader of what is in it.
func openState(state []byte) (r stateReader, err error) {
	version, content, err := wire.Open(state, stateMagic)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamagedState, err)
	}
	if version < stateBefore || version > stateVersion {
		return r, fmt.Errorf("state of a partition in version %d: this build reads versions %d to %d", version, stateBefore, stateVersion)
	}
	return stateReader{content, version}, nil
}

var errStateContent = fmt.Errorf("%w: its checksum is right, its content is not", ErrDamagedState)

// Kept is the content with another retention. Where a shorter one was kept before, hits
// that had left by then may be in longer windows: they count among those of evicted
// keys, as upper bounds, and those of all keys among those of ForgottenOfAll.
func (c Content) Kept(retention time.Duration) (Content, error) {
	was := int64(c.Retention / time.Second)
	k := c
	k.Retention = retention
	gone := map[int]Forgotten{}
	for _, f := range c.Forgotten {
		gone[f.Place] = f
	}
	keep := func(w *window.Window, places ...int) (window.Window, error) {
		kept, left, err := w.Kept(int64(retention / time.Second))
		newest, _ := kept.Newest()
		for _, place := range places {
			if f := gone[place]; left > 0 {
				gone[place] = Forgotten{place, saturated(f.Hits, left), max(f.Newest, newest-was+1)}
			}
		}
		return kept, err
	}
	var err error
	if k.Total, err = keep(&c.Total, ForgottenOfAll); err != nil {
		return c, err
	}
	k.Keys = make([]KeyWindow, len(c.Keys))
	for i, key := range c.Keys {
		places := []int{ForgottenOfAll}
		if key.Key != "" {
			places = forgottenPlaces(key.Key)
		}
		if k.Keys[i].Window, err = keep(&key.Window, places...); err != nil {
			return c, err
		}
		k.Keys[i].Key = key.Key
	}
	k.Forgotten = nil
	for place := range ForgottenOfAll + 1 {
		if f, ok := gone[place]; ok {
			k.Forgotten = append(k.Forgotten, f)
		}
	}
	return k, nil
}

// Admissions are what keys of a content have used of limits that survive a restart, as
// ApplyAdmissions takes them: each at the latest time at which it may have been.
func (r *Replication) Admissions(c Content) (list []Admission, err error) {
	e := r.engine
	states, err := e.limits.decodeStates(c.limits)
	if err != nil {
		return nil, err
	}
	const ms = int64(time.Millisecond)
	now := e.limits.clock.now()
	for i := range states {
		st := &states[i]
		st.plan.Known(&st.state, now, func(at int64, n uint64) {
			list = append(list, Admission{st.plan.record, st.key, (at + ms - 1) / ms, n})
		})
	}
	return list, nil
}

// MergeWindows adds windows that come from a journal to those of a partition that is
// held. They are not gathered. As with Apply, those of a key with an own removal on its
// way count for AllKeys alone.
func (r *Replication) MergeWindows(partition int, list []KeyWindow) error {
	e := r.engine
	errs := []error{e.mergeWindows(&e.partitions[partition], list)}
	for i := range list {
		if list[i].Key == "" {
			errs = append(errs, e.mergeTotal(&list[i].Window))
		}
	}
	return errors.Join(errs...)
}

// mergeTotal merges a window of all keys into AllKeys' own counter.
func (e *Engine) mergeTotal(w *window.Window) error {
	w, err := e.keptWindow(w)
	if err != nil {
		return err
	}
	return e.total.merge(w)
}

// keptWindow is a window with the engine's retention.
func (e *Engine) keptWindow(w *window.Window) (*window.Window, error) {
	if w.Retention() == e.emptyWindow.Retention() {
		return w, nil
	}
	kept, _, err := w.Kept(e.emptyWindow.Retention())
	return &kept, err
}

// mergeWindows is MergeWindows without AllKeys' own counter.
func (e *Engine) mergeWindows(p *partition, list []KeyWindow) error {
	var errs []error
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look(e)
	for i := range list {
		errs = append(errs, e.mergeWindow(p, list[i].Key, &list[i].Window, limit))
	}
	if !p.away.Load() { // else it is on its way, and Hold makes room
		e.makeRoom(p)
	}
	return errors.Join(errs...)
}

// mergeWindow is mergeWindows of one. The caller holds mu.
func (e *Engine) mergeWindow(p *partition, key string, w *window.Window, limit int64) error {
	w, err := e.keptWindow(w)
	if err != nil {
		return err
	}
	if key == "" {
		key = AllKeys
	} else if p.gone[key] > 0 {
		return nil
	}
	newest, _ := w.Newest()
	if newest > limit {
		own := w.Clone()
		e.clock.setAside(newest, w.Total(), limit)
		e.bytes.Add(int64(p.ahead.take(key, &own, limit)))
		return nil
	}
	e.clock.advance(newest)
	if key == AllKeys {
		before := p.total.Size()
		err := p.total.Merge(w)
		e.bytes.Add(int64(p.total.Size() - before))
		return err
	}
	hash := e.hash(key)
	en := p.table.Load().find(hash, key)
	if en == nil {
		en = p.insert(e, hash, key)
	}
	before := en.window.Size()
	err = en.window.Merge(w)
	p.grew(e, int64(en.window.Size()-before))
	return err
}

// MergeForgotten adds hits of evicted keys that come from a journal.
func (r *Replication) MergeForgotten(partition int, list []Forgotten) {
	r.engine.mergeForgotten(&r.engine.partitions[partition], list)
}

func (e *Engine) mergeForgotten(p *partition, list []Forgotten) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range list {
		switch {
		case f.Place == ForgottenOfAll:
			e.forgotten.Lock()
			e.forgotten.all.add(f.Hits, f.Newest)
			e.forgotten.Unlock()
			p.forgotten.all.add(f.Hits, f.Newest)
		case f.Place >= 0 && f.Place < ForgottenPlaces:
			p.forgotten.some(e).place(f.Place).add(f.Hits, f.Newest)
		}
	}
}

func saturated(a, b uint64) uint64 { return window.Exactly(a).Plus(window.Exactly(b)).Upper }

// Clear forgets all hits of a partition that is held, at a place of a journal: those that
// no cut has stay, and own, the own hits and removals that were cut and come after that
// place, in order. What keys have used of their limits stays.
func (r *Replication) Clear(partition int, own []Delta) {
	r.engine.clear(&r.engine.partitions[partition], own)
}

func (e *Engine) clear(p *partition, own []Delta) {
	e.holding.parted.Store(true) // AllKeys' own counter has what is cleared
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look(e)
	p.letGo(e)
	e.bytes.Add(-int64(p.ahead.forget()))
	e.bytes.Add(int64(e.emptyWindow.Size() - p.total.Size()))
	p.total = e.emptyWindow
	if p.forgotten.rows.Swap(nil) != nil {
		e.bytes.Add(-forgottenBytes)
	}
	p.forgotten.all.forget()
	for _, list := range [][]Delta{own, p.deltas} {
		for _, d := range list {
			hash := e.hash(d.Key)
			en := p.table.Load().find(hash, d.Key)
			switch {
			case d.N > 0 && d.At > limit:
				p.settleAside(e, d.Key, d.At, d.N, limit)
				continue
			case d.N == 0:
				p.dropAhead(e, d.Key)
			}
			switch {
			case d.N == 0 && en != nil:
				p.remove(e, en)
			case d.N > 0 && en == nil:
				p.addSettled(e, p.insert(e, hash, d.Key), d.At, d.N)
			case d.N > 0:
				p.addSettled(e, en, d.At, d.N)
			}
		}
	}
	p.settleTotal(e, own, limit) // the others with their cut
}
