package record

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// A request is what one request with an idempotency key counted, of the hits in the batches of its flush. Where another flush
// before has the same request, the hits count once: its readers leave them out of this one (Batch.Without). The bytes, numbers as
// unsigned varints:
//
//	16 bytes   ID (replication.RequestID)
//	then each: 8 bytes sum of the key, little endian; at, as a zigzag difference to the one before; N
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

// KeySecond is a key, by its replication.KeySum, and a second.
type KeySecond struct {
	Key uint64
	At  int64
}

// Without returns the batch without so many hits of these keys in these seconds, and takes what it left out from less. Batches of other
// kinds than hits have none of them.
func (b Batch) Without(less map[KeySecond]uint64) Batch {
	if b.Kind != KindHits && b.Kind != KindPast || len(b.Entries) == 0 {
		return b
	}
	hits, left := b.AppendHits(nil), false
	b.Less = nil
	b.rewrite(hits, func(d *replication.Delta) bool {
		if d.N == 0 {
			b.Less = append(b.Less, *d)
			return true
		}
		of := KeySecond{replication.KeySum(d.Key), d.At}
		if n := min(less[of], d.N); n > 0 {
			less[of] -= n
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
