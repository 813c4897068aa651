package record

import (
	"slices"
	"unsafe"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// check reads a batch's entries without keeping any, and adds up their N. Whether a
// node needs more of a batch depends on the partitions that it holds.
func (b *Batch) check() (sound bool) {
	switch b.Kind {
	case KindHits, KindPast:
	case KindAdmissions:
		return b.eachAdmission(func(_ []byte, _ bool, _ []byte, _ int64, n uint64) { b.N += n })
	default:
		return b.CheckRestored()
	}
	sound = b.eachDelta(func(_, _ int, _ int64, n uint64) {
		b.count++
		b.N += n
		b.Removes = b.Removes || n == 0
	})
	return sound && (b.Kind == KindHits || !b.Removes)
}

// Deltas are the entries of a batch of hits; nil of another. Their keys are parts of one string.
func (b *Batch) Deltas() []replication.Delta {
	copied := *b
	copied.Entries = slices.Clone(b.Entries)
	return copied.AppendDeltas(nil)
}

// AppendDeltas appends the entries of a batch of hits to a list; nothing of another. Their keys are parts of Entries,
// which nobody changes: who keeps one of them for long makes a copy of it.
func (b *Batch) AppendDeltas(list []replication.Delta) []replication.Delta {
	if b.Kind != KindHits {
		return list
	}
	return b.AppendHits(list)
}

// AppendHits is AppendDeltas that appends the entries of a batch of hits for history alone too.
func (b *Batch) AppendHits(list []replication.Delta) []replication.Delta {
	if b.Kind != KindHits && b.Kind != KindPast {
		return list
	}
	list = slices.Grow(list, b.count)
	text := unsafe.String(unsafe.SliceData(b.Entries), len(b.Entries))
	b.eachDelta(func(from, to int, at int64, n uint64) {
		d := replication.Delta{Key: text[from:to]}
		if n > 0 {
			d.At, d.N = at, n
		}
		list = append(list, d)
	})
	return list
}

// Admissions are the entries of a batch of admissions; nil of another.
func (b *Batch) Admissions() (list []replication.Admission) {
	if b.Kind != KindAdmissions {
		return nil
	}
	name := ""
	b.eachAdmission(func(limit []byte, other bool, key []byte, at int64, n uint64) {
		if other {
			name = string(limit)
		}
		list = append(list, replication.Admission{Limit: name, Key: string(key), At: at, N: n})
	})
	return list
}

// eachDelta calls f with each entry of hits, up to one that is impossible: where its key begins in Entries, and
// ends; n = 0 says that it is removed.
func (b *Batch) eachDelta(f func(from, to int, at int64, n uint64)) (sound bool) {
	var head, difference, n uint64
	var from, to int
	var at int64
	for place := 0; place < len(b.Entries); {
		head, place = wire.UvarintAt(b.Entries, place)
		if length := head >> 1; length > 0 {
			if length > weir.MaxKeyBytes {
				return false
			}
			from, to = place, place+int(length)
			place = to
		}
		if n = 0; head&1 == 0 {
			difference, place = wire.UvarintAt(b.Entries, place)
			n, place = wire.UvarintAt(b.Entries, place)
			if at += int64(difference>>1) ^ -int64(difference&1); n == 0 || at < 0 || at > window.MaxTime {
				return false
			}
		}
		if to == 0 || place > len(b.Entries) {
			return false
		}
		f(from, to, at, n)
	}
	return true
}

// eachAdmission calls f with each admission, up to one that is impossible; other says that the limit is another than that
// of the entry before.
func (b *Batch) eachAdmission(f func(limit []byte, other bool, key []byte, at int64, n uint64)) (sound bool) {
	e := newReader(b.Entries)
	var limit []byte
	var at int64
	for e.Len() > 0 {
		length := e.Uvarint()
		other := length > 0
		if other {
			limit = e.Bytes(int(length))
		}
		key := e.Bytes(e.Count())
		at += e.Varint()
		n := e.Uvarint()
		if e.checkKey(key); e.Failed() || len(limit) == 0 || n == 0 || at < 0 {
			return false
		}
		f(limit, other, key, at, n)
	}
	return !e.Failed()
}
