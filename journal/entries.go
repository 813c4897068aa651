package journal

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/window"
)

// check reads a batch's entries without keeping any, and adds up their N. Whether a
// node needs more of a batch depends on the partitions that it holds.
func (b *batch) check() (sound bool) {
	switch b.kind {
	case kindHits:
	case kindAdmissions:
		return b.eachAdmission(func(_ []byte, _ bool, _ []byte, _ int64, n uint64) { b.n += n })
	default:
		return b.checkRestored()
	}
	return b.eachDelta(func(_ []byte, _ bool, _ int64, n uint64) {
		b.n += n
		b.removes = b.removes || n == 0
	})
}

// deltas are the entries of a batch of hits; nil of another.
func (b *batch) deltas() (list []weir.Delta) {
	if b.kind != kindHits {
		return nil
	}
	name := ""
	b.eachDelta(func(key []byte, other bool, at int64, n uint64) {
		if other {
			name = string(key)
		}
		d := weir.Delta{Key: name}
		if n > 0 {
			d.At, d.N = at, n
		}
		list = append(list, d)
	})
	return list
}

// admissions are the entries of a batch of admissions; nil of another.
func (b *batch) admissions() (list []weir.Admission) {
	if b.kind != kindAdmissions {
		return nil
	}
	name := ""
	b.eachAdmission(func(limit []byte, other bool, key []byte, at int64, n uint64) {
		if other {
			name = string(limit)
		}
		list = append(list, weir.Admission{Limit: name, Key: string(key), At: at, N: n})
	})
	return list
}

// eachDelta calls f with each entry of hits, up to one that is impossible; other says
// that the key is another than that of the entry before, n = 0 that it is removed.
func (b *batch) eachDelta(f func(key []byte, other bool, at int64, n uint64)) (sound bool) {
	e := newReader(b.entries)
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
func (b *batch) eachAdmission(f func(limit []byte, other bool, key []byte, at int64, n uint64)) (sound bool) {
	e := newReader(b.entries)
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
