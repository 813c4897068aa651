package replication

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// The state of a partition, version 9: all that a restart needs of it. Numbers
// are unsigned varints; a window is its length and its own encoding (package
// window).
//
//	byte 0     'P'
//	byte 1     version: 9, or 8 if no key has distinct ids, for earlier builds
//	           partitions of the engine, number of this one
//	           retention, seconds
//	           window of all hits of the partition
//	           places of the eviction sketch that are in use: how many, then each
//	           as its number, hits, second of the newest; from version 5 on the
//	           place after the last is that of all keys
//	           keys: how many, then each as its length, its bytes, its window
//	           windows of hits that are ahead of the clock: how many, then each as
//	           the length of its key, the key, its window; of one key there may be
//	           two, and the key * is all hits
//	           from version 6 on: Unix ms until which hits older than the retention were
//	           taken for history; 0: none were
//	           ns by which the time of day was ahead of the clock of limits, signed
//	           limits that survive a restart: how many, then each as its length,
//	           its record (Admission.Limit)
//	           what keys have used of them: how many, then each as the number of
//	           its limit from 0, length of the key, key, length of the state,
//	           state (package limit)
//	           grants, bans, permits, reservations and outstanding leases: how many, then
//	           each as a change (change.go)
//	           in version 9, keys with distinct ids: how many, then each as its length, the key,
//	           the length of its set, the set (package distinct)
//	last 4     CRC-32C of all bytes before, little endian
const (
	stateMagic   = 'P'
	stateVersion = 9
	stateHits    = 8 // without distinct ids
)

// allKeys is the key of all hits.
const allKeys = "*"

// ErrDamagedState is wrapped by the error for a state that was changed or cut,
// or that is none.
var ErrDamagedState = errors.New("damaged state of a partition")

// ErrStateContent is the error for a state that is whole, but can't be one.
var ErrStateContent = fmt.Errorf("%w: its checksum is right, its content is not", ErrDamagedState)

// State is what the state of a partition has, for an engine with as many partitions and the
// same retention. For others there is Content.
type State struct {
	Partitions int           // of its engine
	Partition  int           // which of them
	Retention  time.Duration // of that engine, whole seconds

	Total       window.Window // of all hits of the partition
	Evicted     []Evicted
	Keys        []KeyWindow
	Quarantined []KeyWindow // of hits that were ahead of the clock; the key * is all hits
	Past        int64       // Unix ms until which hits older than the retention were taken for history; 0: none were
	Limits      []LimitState
	Changes     []Change // grants, bans, permits, reservations and quota leases
	Distinct    []KeyDistinct
}

// SetForward says that the time of day was set forward since the state was made: what keys have
// used of their limits was used as much later.
func (s *State) SetForward(by time.Duration) {
	MoveChanges(s.Changes, func(at int64) int64 { return at + by.Milliseconds() })
	for i := range s.Limits {
		s.Limits[i].Ahead += int64(by)
	}
}

// KeyWindow is the hits of a key, or with the key "" of all keys of a partition.
type KeyWindow struct {
	Key    string
	Window window.Window
}

// Evicted is a place of the sketch of hits whose keys were evicted.
type Evicted struct {
	Place  int    // 0 to SketchPlaces-1, or EvictedOfAll
	Hits   uint64 // that may be of any key of the place
	Newest int64  // Unix second of the newest of them
}

// EvictedOfAll is the place of hits that the count of all keys lacks: they had left under
// a shorter retention than now. It is not in the sketch, and no key's.
const EvictedOfAll = SketchPlaces

// LimitState is what a key has used of a limit.
type LimitState struct {
	Record string // the limit, as in Admission
	Key    string
	State  []byte // as package limit writes it
	Ahead  int64  // ns by which the time of day was ahead of the clock that State is by
}

// minKeyBytes is what a key and its window take at least.
const minKeyBytes = 4

// ReadState reads a state that a cut made. One that is damaged is an error that wraps
// ErrDamagedState.
func ReadState(state []byte) (s State, err error) {
	r, err := openState(state)
	if err != nil {
		return s, err
	}
	s = State{Partitions: int(r.AtMost(math.MaxInt)), Partition: int(r.AtMost(math.MaxInt))}
	retention := int64(r.AtMost(window.MaxSeconds))
	s.Retention = time.Duration(retention) * time.Second
	s.Total = r.window()
	s.Evicted = r.evicted()
	n := r.Count()
	s.Keys = slices.Grow(s.Keys, min(n, r.Len()/minKeyBytes))
	for range n {
		s.Keys = append(s.Keys, KeyWindow{string(r.Block()), r.window()})
		if r.Failed() {
			return s, ErrStateContent
		}
	}
	s.Quarantined = r.ahead()
	s.Past = int64(r.AtMost(math.MaxInt64))
	s.Limits, s.Changes = r.limits()
	if r.version > stateHits {
		for left := r.Count(); left > 0 && !r.Failed(); left-- {
			s.Distinct = append(s.Distinct, ReadDistinct(&r.Reader, retention))
		}
	}
	if !r.Done() || s.Partition >= s.Partitions {
		return s, ErrStateContent
	}
	return s, nil
}

// openState checks the frame of a state, and returns a reader of what is in it.
func openState(state []byte) (r stateReader, err error) {
	version, content, err := wire.Open(state, stateMagic)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamagedState, err)
	}
	if version != stateHits && version != stateVersion {
		return r, fmt.Errorf("state of a partition in version %d: this build reads versions %d and %d: %w", version, stateHits, stateVersion, wire.ErrVersion)
	}
	return stateReader{content, version}, nil
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

func (r *stateReader) ahead() (list []KeyWindow) {
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		kw := KeyWindow{string(r.Block()), r.window()}
		if len(kw.Key) == 0 || kw.Window.Total() == 0 {
			r.Fail()
		}
		list = append(list, kw)
	}
	return list
}

func (r *stateReader) evicted() (list []Evicted) {
	for range min(r.Uvarint(), EvictedOfAll+1) {
		place, hits, newest := r.Uvarint(), r.Uvarint(), int64(r.Uvarint())
		if place > EvictedOfAll {
			r.Fail()
			return nil
		}
		list = append(list, Evicted{int(place), hits, newest})
	}
	return list
}

func (r *stateReader) limits() (list []LimitState, changes []Change) {
	ahead := r.Varint()
	var records []string
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		records = append(records, string(r.Block()))
	}
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		number, key, encoded := r.Uvarint(), r.Block(), r.Block()
		if number >= uint64(len(records)) {
			r.Fail()
			return nil, nil
		}
		list = append(list, LimitState{records[number], string(key), encoded, ahead})
	}
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		changes = append(changes, ReadChange(&r.Reader))
	}
	return list, changes
}

// StateWriter writes the state of a partition, its parts in the order of its methods, each
// once. Nothing is gathered before: a partition may have a million keys.
type StateWriter struct {
	b       []byte
	start   int
	scratch []byte
}

// NewStateWriter begins a state after b, of one of an engine's partitions, with its
// retention in seconds and the window of all hits of the partition.
func NewStateWriter(b []byte, partitions, partition int, retention int64, total *window.Window) *StateWriter {
	w := &StateWriter{b: append(b, stateMagic, stateHits), start: len(b)}
	for _, n := range []uint64{uint64(partitions), uint64(partition), uint64(retention)} {
		w.b = binary.AppendUvarint(w.b, n)
	}
	w.window(total)
	return w
}

func (w *StateWriter) window(hits *window.Window) {
	w.scratch, _ = hits.AppendBinary(w.scratch[:0]) // never fails
	w.b = wire.AppendBlock(w.b, w.scratch)
}

// Evicted writes the places of the eviction sketch that have hits, in order.
func (w *StateWriter) Evicted(list []Evicted) {
	w.b = binary.AppendUvarint(w.b, uint64(len(list)))
	for _, f := range list {
		w.b = binary.AppendUvarint(w.b, uint64(f.Place))
		w.b = binary.AppendUvarint(w.b, f.Hits)
		w.b = binary.AppendUvarint(w.b, uint64(f.Newest))
	}
}

// Windows writes how many windows there are, for which Window is called then: first windows of
// keys, then windows ahead of the clock.
func (w *StateWriter) Windows(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }

// Window writes one of a key.
func (w *StateWriter) Window(key string, hits *window.Window) {
	w.b = wire.AppendText(w.b, key)
	w.window(hits)
}

// Past writes until when hits were taken for history alone, Unix ms; 0: none were.
func (w *StateWriter) Past(until int64) { w.b = binary.AppendUvarint(w.b, uint64(until)) }

// Limits writes the states of limits, all by a clock that the time of day is ahead
// of by so many ns, and the changes. each calls add with all states.
func (w *StateWriter) Limits(ahead int64, each func(add func(record, key string, state []byte)), changes []Change) {
	w.b = binary.AppendVarint(w.b, ahead)
	numbers := map[string]uint64{}
	var records, states []byte
	n := uint64(0)
	each(func(record, key string, state []byte) {
		number, known := numbers[record]
		if !known {
			number = uint64(len(numbers))
			numbers[record] = number
			records = wire.AppendText(records, record)
		}
		states = binary.AppendUvarint(states, number)
		states = wire.AppendText(states, key)
		states = wire.AppendBlock(states, state)
		n++
	})
	w.b = append(binary.AppendUvarint(w.b, uint64(len(numbers))), records...)
	w.b = append(binary.AppendUvarint(w.b, n), states...)
	w.b = binary.AppendUvarint(w.b, uint64(len(changes)))
	for _, one := range changes {
		w.b = AppendChange(w.b, one)
	}
}

// Distinct writes the ids of keys, if there are any.
func (w *StateWriter) Distinct(sets map[string]*distinct.Set) {
	if len(sets) == 0 {
		return
	}
	w.b[w.start+1] = stateVersion
	w.b = binary.AppendUvarint(w.b, uint64(len(sets)))
	for key, set := range sets {
		w.b = KeyDistinct{key, set}.AppendDistinct(w.b, &w.scratch)
	}
}

// Seal ends the state, and returns it after the bytes that it was begun with.
func (w *StateWriter) Seal() []byte { return wire.Seal(w.b, w.start) }

// Content is a state for an engine with other partitions or another retention, or one that has hits already. It has Keys and
// Distinct by key, and what was Quarantined among Keys: a key may have several windows.
type Content struct{ State }

// ReadContent reads a state that a cut made. One that is damaged is an error that wraps
// ErrDamagedState.
func ReadContent(state []byte) (c Content, err error) {
	if c.State, err = ReadState(state); err != nil {
		return c, err
	}
	slices.SortFunc(c.Distinct, func(a, b KeyDistinct) int { return strings.Compare(a.Key, b.Key) })
	for _, ahead := range c.Quarantined {
		if ahead.Key == allKeys {
			ahead.Key = ""
		}
		c.Keys = append(c.Keys, ahead)
	}
	c.Quarantined = nil
	slices.SortFunc(c.Keys, func(a, b KeyWindow) int {
		first, _ := a.Window.Newest()
		second, _ := b.Window.Newest()
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(first, second))
	})
	return c, nil
}

// WithRetention is the content with another retention. Where a shorter one was kept before, hits
// that had left by then may be in longer windows. They count as hits of evicted
// keys, as upper bounds, and for all keys as hits of EvictedOfAll.
func (c Content) WithRetention(retention time.Duration) (Content, error) {
	was := int64(c.Retention / time.Second)
	k := c
	k.Retention = retention
	gone := map[int]Evicted{}
	for _, f := range c.Evicted {
		gone[f.Place] = f
	}
	keep := func(w *window.Window, places ...int) (window.Window, error) {
		kept, left, err := w.WithRetention(int64(retention / time.Second))
		newest, _ := kept.Newest()
		for _, place := range places {
			if f := gone[place]; left > 0 {
				hits := window.Exactly(f.Hits).Plus(window.Exactly(left)).Upper
				gone[place] = Evicted{place, hits, max(f.Newest, newest-was+1)}
			}
		}
		return kept, err
	}
	var err error
	if k.Total, err = keep(&c.Total, EvictedOfAll); err != nil {
		return c, err
	}
	k.Keys = make([]KeyWindow, len(c.Keys))
	for i, key := range c.Keys {
		places := []int{EvictedOfAll}
		if key.Key != "" {
			places = SketchPlacesOf(key.Key)
		}
		if k.Keys[i].Window, err = keep(&key.Window, places...); err != nil {
			return c, err
		}
		k.Keys[i].Key = key.Key
	}
	k.Evicted = nil
	for place := range EvictedOfAll + 1 {
		if f, ok := gone[place]; ok {
			k.Evicted = append(k.Evicted, f)
		}
	}
	return k, nil
}
