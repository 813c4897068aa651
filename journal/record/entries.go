package record

import (
	"github.com/weir-counter/weir/internal/replication"
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
	sound = b.eachDelta(func(_ []byte, _ bool, _ int64, n uint64) {
		b.N += n
		b.Removes = b.Removes || n == 0
	})
	return sound && (b.Kind == KindHits || !b.Removes)
}

// Deltas are the entries of a batch of hits; nil of another.
func (b *Batch) Deltas() (list []replication.Delta) {
	if b.Kind != KindHits {
		return nil
	}
	name := ""
	b.eachDelta(func(key []byte, other bool, at int64, n uint64) {
		if other {
			name = string(key)
		}
		d := replication.Delta{Key: name}
		if n > 0 {
			d.At, d.N = at, n
		}
		list = append(list, d)
	})
	return list
}

// EachHit calls f with each entry of a batch of hits, or of those for history alone, in order: n = 0 says
// that the key is removed. f may keep no part of key. Of another batch there are none.
func (b *Batch) EachHit(f func(key []byte, at int64, n uint64)) {
	if b.Kind == KindHits || b.Kind == KindPast {
		b.eachDelta(func(key []byte, _ bool, at int64, n uint64) { f(key, at, n) })
	}
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

// eachDelta calls f with each entry of hits, up to one that is impossible; other says
// that the key is another than that of the entry before, n = 0 that it is removed.
func (b *Batch) eachDelta(f func(key []byte, other bool, at int64, n uint64)) (sound bool) {
	e := newReader(b.Entries)
	var key []byte
	var at int64
	for e.Len() > 0 {
		head, n := e.Uvarint(), uint64(0)
		other := head>>1 > 0
		if other {
			key = e.Bytes(int(head >> 1))
		}
		if head&1 == 0 {
			at += e.Varint()
			n = e.Uvarint()
			if n == 0 || at < 0 || at > window.MaxTime {
				e.Fail()
			}
		}
		if e.checkKey(key); e.Failed() {
			return false
		}
		f(key, other, at, n)
	}
	return !e.Failed()
}

// eachAdmission is eachDelta of admissions; other says that the limit is another.
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
