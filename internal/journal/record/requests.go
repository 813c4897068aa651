package record

import (
	"encoding/binary"
	"math"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// A request is what one request with an idempotency key counted, of the hits in the batches of its flush. Where another flush
// before has the same request, the hits count once: its readers leave them out of this one (Batch.Without). The bytes, numbers as
// unsigned varints:
//
//	16 bytes   ID (replication.RequestID)
//	then each: 8 bytes sum of the key (replication.After), little endian; at, as a zigzag difference to the one before; N
//
// One with many hits is in several pieces with the same ID.

// encodeRequest returns pieces of about so many bytes at most.
func encodeRequest(r replication.Request, most int) (pieces [][]byte) {
	var b []byte
	at := int64(0)
	for _, h := range r.Hits {
		if b == nil {
			b, at = append(b, r.ID[:]...), 0
		}
		b = binary.LittleEndian.AppendUint64(b, h.Key)
		b = binary.AppendVarint(b, h.At-at)
		b = binary.AppendUvarint(b, h.N)
		if at = h.At; len(b) > most {
			pieces, b = append(pieces, b), nil
		}
	}
	if b != nil {
		pieces = append(pieces, b)
	}
	return pieces
}

func (r *reader) requests() (list []replication.Request) {
	for n := r.Count(); n > 0 && !r.Failed(); n-- {
		e := newReader(r.Block())
		one := replication.Request{}
		copy(one.ID[:], e.Bytes(len(one.ID)))
		for at := int64(0); e.Len() > 0; {
			h := replication.RequestHit{Key: e.Uint64()}
			at += e.Varint()
			h.At, h.N = at, e.Uvarint()
			one.Hits = append(one.Hits, h)
		}
		if e.Failed() {
			r.Fail()
			return nil
		}
		list = append(list, one)
	}
	return list
}

// SeenRequest is a request and the flush that counts it.
type SeenRequest struct {
	ID replication.RequestID
	Incarnation
	Flush uint64
	At    int64 // of the flush, Unix ms
}

func appendSeen(b []byte, list []SeenRequest) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = append(b, s.ID[:]...)
		b = binary.LittleEndian.AppendUint64(b, s.Origin)
		b = binary.AppendUvarint(b, s.Epoch)
		b = binary.AppendUvarint(b, s.Flush)
		b = binary.AppendUvarint(b, uint64(s.At))
	}
	return b
}

func (r *reader) seen() (list []SeenRequest) {
	for n := r.Count(); n > 0 && !r.Failed(); n-- {
		var s SeenRequest
		copy(s.ID[:], r.Bytes(len(s.ID)))
		s.Origin, s.Epoch, s.Flush, s.At = r.Uint64(), r.Uvarint(), r.Uvarint(), int64(r.Uvarint())
		if r.Failed() || s.At < 0 {
			r.Fail()
			return nil
		}
		list = append(list, s)
	}
	return list
}

// Less is the hits that a reader leaves out of a flush, because an earlier flush counts their requests.
type Less struct {
	hits    map[replication.RequestHit]uint64 // N is 0
	removed map[uint64]uint64                 // by KeySum: the removals of a key in the batches so far
}

// Add has hits left out.
func (l *Less) Add(h replication.RequestHit) {
	if l.hits == nil {
		l.hits, l.removed = map[replication.RequestHit]uint64{}, map[uint64]uint64{}
	}
	n := h.N
	h.N = 0
	l.hits[h] += min(n, math.MaxUint64-l.hits[h])
}

// take returns how many of the hits of a delta are to be left out. A removal that came while the hits were counted may be
// before them, though their request says that it is not.
func (l *Less) take(d *replication.Delta) (n uint64) {
	sum := replication.KeySum(d.Key)
	if d.N == 0 {
		l.removed[sum]++
		return 0
	}
	removed := l.removed[sum]
	for _, removals := range []uint64{removed, max(removed, 1) - 1} {
		of := replication.RequestHit{Key: replication.After(sum, removals), At: d.At}
		some := min(l.hits[of], d.N-n)
		l.hits[of] -= some
		n += some
	}
	return n
}

// Without returns the batch without the hits in less, and takes what it left out from there. Batches of other kinds than hits have none
// of them. All batches of a flush come in their order.
func (b Batch) Without(less *Less) Batch {
	if b.Kind != KindHits && b.Kind != KindPast || len(b.Entries) == 0 || less.hits == nil {
		return b
	}
	hits, left := b.AppendHits(nil), false
	b.Less = nil
	b.rewrite(hits, func(d *replication.Delta) bool {
		n := less.take(d)
		if d.N == 0 {
			b.Less = append(b.Less, *d)
			return true
		}
		if n > 0 {
			d.N -= n
			b.Less, left = append(b.Less, replication.Delta{Key: d.Key, At: d.At, N: n}), true
		}
		return d.N > 0
	})
	if !left {
		b.Less = nil
	}
	return b
}
