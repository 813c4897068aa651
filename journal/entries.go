package journal

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/window"
)

// check reads a batch's entries without keeping any, and adds up their N. Whether a
// node needs more of a batch depends on the partitions that it holds.
func (b *batch) check() (sound bool) {
	if b.kind == kindAdmissions {
		return b.eachAdmission(func(_ []byte, _ bool, _ []byte, _ int64, n uint64) { b.n += n })
	}
	return b.eachDelta(func(_ []byte, _ bool, _ int64, n uint64) {
		b.n += n
		b.removes = b.removes || n == 0
	})
}

// deltas are the entries of a batch of hits; nil of another.
func (b *batch) deltas() (list []weir.Delta) {
	if b.kind == kindAdmissions {
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
	e := reader{rest: b.entries}
	var key []byte
	var at int64
	for len(e.rest) > 0 {
		head, n := e.uvarint(), uint64(0)
		other := head>>1 > 0
		if other {
			key = e.take(head >> 1)
		}
		if head&1 == 0 {
			at += e.varint()
			n = e.uvarint()
			if n == 0 || at < 0 || at > window.MaxTime {
				e.fail()
			}
		}
		if e.checkKey(key); e.failed {
			return false
		}
		f(key, other, at, n)
	}
	return !e.failed
}

// eachAdmission is eachDelta of admissions; other says that the limit is another.
func (b *batch) eachAdmission(f func(limit []byte, other bool, key []byte, at int64, n uint64)) (sound bool) {
	e := reader{rest: b.entries}
	var limit []byte
	var at int64
	for len(e.rest) > 0 {
		length := e.uvarint()
		other := length > 0
		if other {
			limit = e.take(length)
		}
		key := e.take(e.uvarint())
		at += e.varint()
		n := e.uvarint()
		if e.checkKey(key); e.failed || len(limit) == 0 || n == 0 || at < 0 {
			return false
		}
		f(limit, other, key, at, n)
	}
	return !e.failed
}
