package weir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// The state of a partition, version 5: all that a restart needs of it. Numbers
// are unsigned varints; a window is its length and its own encoding (package
// window).
//
//	byte 0     'P'
//	byte 1     version, 5
//	           partitions of the engine, number of this one
//	           retention, seconds
//	           window of all hits of the partition
//	           places of forgotten hits that are in use: how many, then each as
//	           its number, hits, second of the newest; from version 5 on the
//	           place after the last is that of all keys
//	           keys: how many, then each as its length, its bytes, its window
//	           windows of hits that are ahead of the clock (ahead.go): how many,
//	           then each as the length of its key, the key, its window; of one key
//	           there may be two, and the key * is all hits
//	           ns by which the time of day was ahead of the clock of limits, signed
//	           limits that survive a restart: how many, then each as its length,
//	           its record (limits_journal.go)
//	           what keys have used of them: how many, then each as the number of
//	           its limit from 0, length of the key, key, length of the state,
//	           state (package limit)
//	last 4     CRC-32C of all bytes before, little endian
const (
	stateMagic   = 'P'
	stateVersion = 5
	stateBefore  = 2 // the first version that is read: it has no windows ahead of the clock
	stateNoClock = 3 // and this one does not tell the clock of limits
	stateNoTotal = 4 // nor this one what AllKeys lacks
)

// ErrDamagedState is wrapped by the error for a state that was changed or cut,
// or that is none.
var ErrDamagedState = errors.New("damaged state of a partition")

// appendState appends the partition's state. All live cells are empty, and the
// caller holds mu, and the lock of the partition's limits.
func (p *partition) appendState(b []byte, e *Engine, number int) []byte {
	start := len(b)
	b = append(b, stateMagic, stateVersion)
	b = binary.AppendUvarint(b, uint64(len(e.partitions)))
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(e.clock.retention))
	var scratch []byte
	b = appendWindow(b, &p.total, &scratch)
	b = p.forgotten.append(b)
	b = binary.AppendUvarint(b, uint64(p.keys))
	p.table.Load().each(func(en *entry) {
		b = wire.AppendText(b, en.key)
		b = appendWindow(b, &en.window, &scratch)
	})
	b = p.ahead.appendTo(b, &scratch)
	b = e.limits.shares[number].appendTo(b, &e.limits.clock)
	return wire.Seal(b, start)
}

func appendWindow(b []byte, w *window.Window, scratch *[]byte) []byte {
	*scratch, _ = w.AppendBinary((*scratch)[:0]) // never fails
	return wire.AppendBlock(b, *scratch)
}

// LoadState puts a state that Cut made into a partition that has had no hits, or
// into one that was released, which takes what is kept of limits in any case alone. A
// state that is damaged, or of an engine with other partitions or another
// retention, is refused, and the partition stays empty.
func (r *Replication) LoadState(partition int, state []byte) error {
	e := r.engine
	s, err := e.decodeState(partition, state)
	if err != nil {
		return err
	}
	p := &e.partitions[partition]
	if p.away.Load() {
		return e.limits.restore(partition, s.limits)
	}
	p.mu.Lock()
	had := p.keys > 0
	p.mu.Unlock()
	if had {
		return fmt.Errorf("partition %d has keys already: a state is loaded before the first hit", partition)
	}
	if err := e.limits.restore(partition, s.limits); err != nil {
		return err
	}
	// before the windows are the partition's, and change
	for i := range s.ahead {
		if s.ahead[i].key == AllKeys {
			if err := e.total.merge(&s.ahead[i].window); err != nil {
				return err
			}
		}
	}
	if err := e.total.merge(&s.total); err != nil {
		return err
	}
	e.forgotten.Lock()
	e.forgotten.all.add(s.all.Hits, s.all.Newest)
	e.forgotten.Unlock()
	return e.installWindows(p, s)
}

// decodeState reads a state, and checks that it is one of this engine's partition.
func (e *Engine) decodeState(partition int, state []byte) (loaded loadedState, err error) {
	r, err := openState(state)
	if err != nil {
		return loaded, err
	}
	partitions, number, retention := r.Uvarint(), r.Uvarint(), r.Uvarint()
	switch {
	case r.Failed():
	case partitions != uint64(len(e.partitions)):
		return loaded, fmt.Errorf("the state is of an engine with %d partitions, this one has %d: their number can't be changed", partitions, len(e.partitions))
	case number != uint64(partition):
		return loaded, fmt.Errorf("%w: of partition %d in place of %d", ErrDamagedState, number, partition)
	case retention != uint64(e.clock.retention):
		return loaded, fmt.Errorf("the state was kept with a retention of %v, not %v: the retention of existing data can't be changed",
			time.Duration(retention)*time.Second, e.cfg.Retention)
	}
	if loaded = r.partition(); !r.Done() {
		return loaded, errStateContent
	}
	return loaded, nil
}

// loadedState is a decoded state.
type loadedState struct {
	total     window.Window
	forgotten *forgottenRows
	all       Forgotten // of all keys
	keys      []string
	windows   []window.Window
	ahead     []aheadWindow
	limits    []restoredState
}

// aheadWindow is one that was ahead of the clock.
type aheadWindow struct {
	key    string
	window window.Window
}

// installWindows puts all of a state into the partition but what keys have used of
// their limits. Keys that are there already have new hits only.
func (e *Engine) installWindows(p *partition, s loadedState) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look(e)
	e.bytes.Add(int64(s.total.Size() - p.total.Size()))
	p.total = s.total
	if s.forgotten != nil {
		e.bytes.Add(forgottenBytes)
		p.forgotten.rows.Store(s.forgotten)
	}
	p.forgotten.all.add(s.all.Hits, s.all.Newest)
	for i, key := range s.keys {
		hash := e.hash(key)
		en := p.table.Load().find(hash, key)
		if en == nil {
			en = p.insert(e, hash, key)
		} else if err := s.windows[i].Merge(&en.window); err != nil {
			return err
		}
		before := en.window.Size()
		en.window = s.windows[i]
		p.grew(e, int64(en.window.Size()-before))
		if newest, ok := en.window.Newest(); ok { // that of a key which is counted apart may be after all others
			e.clock.advance(newest)
		}
	}
	for i := range s.ahead {
		a := &s.ahead[i]
		e.clock.setAside(a.newest(), a.window.Total(), limit)
		e.bytes.Add(int64(p.ahead.take(a.key, &a.window, limit)))
	}
	p.setAllAside(e, limit)
	p.merge(e, limit)
	if newest, ok := p.total.Newest(); ok {
		e.clock.advance(newest)
	}
	if !p.away.Load() { // else Hold makes room
		e.makeRoom(p)
	}
	return nil
}

// stateReader reads the state of a partition.
type stateReader struct {
	wire.Reader
	version byte
}

func (r *stateReader) window() (w window.Window) {
	if err := w.UnmarshalBinary(r.Block()); err != nil {
		r.Fail()
	}
	return w
}

func (r *stateReader) partition() (s loadedState) {
	s.total = r.window()
	s.forgotten, s.all = r.forgotten()
	n := r.Count()
	s.keys, s.windows = slices.Grow(s.keys, n), slices.Grow(s.windows, n)
	for range n {
		s.keys = append(s.keys, string(r.Block()))
		s.windows = append(s.windows, r.window())
		if r.Failed() {
			return s
		}
	}
	if r.version > stateBefore {
		s.ahead = r.aheadWindows()
	}
	s.limits = r.limitStates()
	return s
}

func (a *ahead) appendTo(b []byte, scratch *[]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(a.near)+len(a.far)))
	a.each(func(key string, w *window.Window) {
		b = wire.AppendText(b, key)
		b = appendWindow(b, w, scratch)
	})
	return b
}

func (r *stateReader) aheadWindows() (list []aheadWindow) {
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		list = append(list, aheadWindow{string(r.Block()), r.window()})
		if len(list[len(list)-1].key) == 0 || list[len(list)-1].window.Total() == 0 {
			r.Fail()
		}
	}
	return list
}

func (f *forgotten) append(b []byte) []byte {
	var places []byte
	used := uint64(0)
	one := func(i int, place *forgottenHits) {
		if place.hits.Load() == 0 {
			return
		}
		places = binary.AppendUvarint(places, uint64(i))
		places = binary.AppendUvarint(places, place.hits.Load())
		places = binary.AppendUvarint(places, uint64(place.newest.Load()))
		used++
	}
	if rows := f.rows.Load(); rows != nil {
		for i := range ForgottenPlaces {
			one(i, rows.place(i))
		}
	}
	one(ForgottenOfAll, &f.all)
	return append(binary.AppendUvarint(b, used), places...)
}

func (r *stateReader) forgotten() (rows *forgottenRows, all Forgotten) {
	for range min(r.Uvarint(), ForgottenOfAll+1) {
		i, hits, newest := r.Uvarint(), r.Uvarint(), int64(r.Uvarint())
		switch {
		case i == ForgottenOfAll && r.version > stateNoTotal:
			all = Forgotten{ForgottenOfAll, hits, newest}
		case i >= ForgottenPlaces:
			r.Fail()
			return nil, all
		default:
			if rows == nil {
				rows = new(forgottenRows)
			}
			rows.place(int(i)).hits.Store(hits)
			rows.place(int(i)).newest.Store(newest)
		}
	}
	return rows, all
}
