package weir

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// An engine may hold some of its partitions only, while others are held by the
// engines of other nodes. Of a partition that it does not hold it takes hits all
// the same, for the journal, and forgets them with the cut that has them; questions
// about it are refused with CodeNotHeld, for whoever holds it to answer. What is
// kept of limits there, limits_held.go says.

// holding is what an engine knows of the partitions that it does not hold.
type holding struct {
	parted  atomic.Bool  // some partition was released: AllKeys is the sum of those held
	passing atomic.Int64 // bytes of keys of partitions that are not held

	releases atomic.Uint64 // so far
}

// Holds tells whether the engine holds a partition. A new engine holds all.
func (r *Replication) Holds(partition int) bool { return r.engine.holds(partition) }

func (e *Engine) holds(partition int) bool { return !e.partitions[partition].away.Load() }

// Release lets a partition go: its windows are forgotten, and of its hits only those
// are kept that no cut has yet. Only for an engine with Config.Gather, whose journal
// has the others. O(keys), under the partition's lock.
func (r *Replication) Release(partition int) {
	e := r.engine
	if e.holds(partition) {
		e.holding.parted.Store(true)
		e.forget(partition)
	}
}

// Followed is what a journal has of a partition at one place. Only one field is set.
type Followed struct {
	Deltas    []Delta     // as of Apply
	Windows   []KeyWindow // as of MergeWindows
	Forgotten []Forgotten // as of MergeForgotten
	Clear     bool        // all hits before it are gone
}

// Hold takes a partition back that was released: a state that Cut made, nil where
// there is none, and what the journal has after it: hits in then, in order, and
// admissions. Hits and admissions that no cut has yet are kept too. Questions are answered
// once all is there. It must not run beside Cut. A state that LoadState would refuse is
// refused, and so are windows that can't be merged; the partition stays released.
func (r *Replication) Hold(partition int, state []byte, then []Followed, admitted []Admission) error {
	e := r.engine
	p := &e.partitions[partition]
	if !p.away.Load() {
		return fmt.Errorf("partition %d is held already", partition)
	}
	loaded := loadedState{total: e.emptyWindow} // a zero one has another retention
	if state != nil {
		var err error
		if loaded, err = e.decodeState(partition, state); err != nil {
			return err
		}
	}
	if err := e.hold(partition, loaded, then, admitted); err != nil {
		e.forget(partition)
		return err
	}
	e.makeRoomEvenly()
	return nil
}

func (e *Engine) hold(partition int, loaded loadedState, then []Followed, admitted []Admission) error {
	p := &e.partitions[partition]
	p.mu.Lock()
	p.gone = nil // what was cut comes in its order of the journal
	p.mu.Unlock()
	if err := e.limits.holdShare(partition, loaded.limits); err != nil {
		return err
	}
	if err := e.replication.ApplyShared(partition, admitted); err != nil {
		return err
	}
	if err := e.installWindows(p, loaded); err != nil {
		return err
	}
	for i := range then {
		if err := e.follow(p, &then[i]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.holding.passing.Add(-p.passing)
	p.passing = 0
	p.away.Store(false)
	return nil
}

// follow applies what a journal has to a partition that is on its way.
func (e *Engine) follow(p *partition, f *Followed) error {
	switch {
	case f.Clear:
		e.clear(p, nil)
	case f.Windows != nil:
		return e.mergeWindows(p, f.Windows)
	case f.Forgotten != nil:
		e.mergeForgotten(p, f.Forgotten)
	default:
		e.apply(p, f.Deltas, nil)
	}
	return nil
}

// forget makes a partition one that is not held and has new hits alone.
func (e *Engine) forget(partition int) {
	p := &e.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letGo(e)
	p.away.Store(true)
	e.holding.releases.Add(1)
	e.bytes.Add(int64(e.emptyWindow.Size() - p.total.Size()))
	p.total = e.emptyWindow
	if p.forgotten.rows.Swap(nil) != nil {
		e.bytes.Add(-forgottenBytes)
	}
	p.forgotten.all.forget()
	e.limits.releaseShare(partition)
}

// letGo forgets the keys of a partition, what was set aside of them too; their hits that no
// cut has yet are in its deltas. The caller holds mu.
func (p *partition) letGo(e *Engine) {
	clear(p.active)
	p.active, p.kept = p.active[:0], 0
	p.bytes = bytesOf(p.deltas)
	defer p.tellWaiting(e)
	e.bytes.Add(int64(-p.ahead.forget()))
	if p.keys == 0 {
		return
	}
	old, left := p.table.Load(), newTable(1)
	old.each(func(en *entry) {
		e.cool(p, en, cellDead)
		settleWord(en.cell.word.Swap(cellDead), func(second int64, n uint64) { p.gather(e, Delta{en.key, second, n}) })
		p.grew(e, -keyBytes(en.key)-int64(en.window.Size()))
	})
	p.table.Store(left)
	p.grew(e, left.size()-old.size())
	e.keys.Add(int64(-p.keys))
	p.keys, p.hand = 0, 0
}

// grew notes bytes of keys, windows and tables. The caller holds mu.
func (p *partition) grew(e *Engine, bytes int64) {
	e.bytes.Add(bytes)
	if p.away.Load() {
		p.passing += bytes
		e.holding.passing.Add(bytes)
	}
}

// mustHold refuses a question about a partition that is not held.
func (p *partition) mustHold() error {
	if p.away.Load() {
		return errNotHeld
	}
	return nil
}

var errNotHeld = &Error{CodeNotHeld, "key", "the key's partition is held by other nodes, and none of them could be asked: retry in a second"}

// PartitionSet is some of an engine's partitions, a bit for each; nil is all of
// them.
type PartitionSet []uint64

// NewPartitionSet returns an empty set, for an engine of so many partitions.
func NewPartitionSet(partitions int) PartitionSet { return make(PartitionSet, (partitions+63)/64) }

// Add puts a partition into the set, which was made for as many.
func (s PartitionSet) Add(partition int) { s[partition/64] |= 1 << (partition % 64) }

// Remove takes a partition out.
func (s PartitionSet) Remove(partition int) { s[partition/64] &^= 1 << (partition % 64) }

// Has tells whether a partition is in the set.
func (s PartitionSet) Has(partition int) bool {
	return s == nil || partition/64 < len(s) && s[partition/64]>>(partition%64)&1 != 0
}

// Len is how many partitions are in the set; of nil it is 0.
func (s PartitionSet) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// HeldPartitions is the set of those that the engine holds now.
func (r *Replication) HeldPartitions() PartitionSet {
	e := r.engine
	s := NewPartitionSet(len(e.partitions))
	for i := range e.partitions {
		if e.holds(i) {
			s.Add(i)
		}
	}
	return s
}

// countPartitions is the count of all hits of some partitions that a cut has.
func (e *Engine) countPartitions(in PartitionSet, at, seconds int64) (sum Count) {
	for i := range e.partitions {
		if in.Has(i) {
			p := &e.partitions[i]
			p.mu.Lock()
			sum = sum.Plus(p.total.Count(at, seconds)).Plus(p.ahead.count(AllKeys, at, seconds)).Plus(Count{Upper: p.forgotten.all.since(at - seconds)})
			p.mu.Unlock()
		}
	}
	return sum
}

// mustHold refuses a question about a key that can't be answered here; of AllKeys,
// about some partitions.
func (e *Engine) mustHold(in PartitionSet, key string) error {
	switch {
	case key != AllKeys:
		return e.partition(key).mustHold()
	case !e.holding.parted.Load():
		return nil
	}
	return e.eachHeld(in, func(*partition) {})
}

// whileHeld calls answer while what a question is about is held, again if a partition was
// released meanwhile: it may have come back, and the answer lack something.
func (e *Engine) whileHeld(in PartitionSet, key string, answer func()) error {
	for {
		releases := e.holding.releases.Load()
		if err := e.mustHold(in, key); err != nil {
			return err
		}
		if answer(); releases == e.holding.releases.Load() {
			return nil
		}
	}
}

// eachHeld calls f for the partitions of a set, all of which must be held.
func (e *Engine) eachHeld(in PartitionSet, f func(p *partition)) error {
	for i := range e.partitions {
		if !in.Has(i) {
			continue
		}
		p := &e.partitions[i]
		if err := p.mustHold(); err != nil {
			return err
		}
		f(p)
		if err := p.mustHold(); err != nil { // released meanwhile
			return err
		}
	}
	return nil
}
