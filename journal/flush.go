package journal

import (
	"encoding/binary"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
)

// A flush is what one origin gathered in one flush interval: batches of several
// partitions, and receipts. It leaves in one message, or in several parts where
// one would be too large; a flush counts only when all its parts are there. The
// bytes of a part, version 2 or 3, numbers as unsigned varints:
//
//	byte 0     'F'
//	byte 1     version: 2; 3 where a backup is restored into the journal
//	8 bytes    origin, little endian
//	           epoch
//	           flush, contiguous from 1 in an epoch
//	           part, from 0; a byte of flags: 1 if this is the flush's last part,
//	           2 if its origin takes no more hits after it
//	           node: length of its name, name; empty for one alone
//	           at: Unix ms when the origin began to gather the flush: it and those
//	           before have every hit that the origin took until then
//	           batches: how many, then each:
//	               partition << 1 | kind: 0 hits, 1 admissions; in version 3
//	               partition << 3 | kind, which may be one of restored.go
//	               seq, contiguous from 1 in a partition, over all epochs; with
//	                    no entries, that of the last one, again
//	               total: sum of N of this origin's batches of the partition,
//	                      this one included, modulo 2^64
//	               length of the entries in bytes, the entries
//	               4 bytes CRC-32C of the batch, from its partition on, and of
//	               origin and epoch
//	           receipts: how many, then each: length, bytes
//	last 4     CRC-32C of all bytes before, little endian
//
// An entry is a key's hits in one second, or its removal:
//
//	head = length of key << 1 | removal; a length of 0 is the key before
//	key
//	unless removal: at, as a zigzag difference to the entry before (at first
//	                to 0), and N
//
// An entry of admissions, of limits that survive a restart or that nodes share:
//
//	length of the limit, 0 is the one before; limit; length of the key; key; at
//	and N, as with hits, but at in Unix ms
const (
	flushMagic   = 'F'
	flushVersion = 2

	// restoredVersion is that of flushes of a restored backup: a build that does not
	// know them says so, and goes no further.
	restoredVersion = 3

	flushOriginAt = 2 // the place of the origin in a part

	// maxBatchBytes and maxPartBytes keep a part below the 1 MiB that a NATS
	// server takes: a batch is closed once it is past the one, a part once it is
	// past the other.
	maxBatchBytes = 128 << 10
	maxPartBytes  = 512 << 10
)

// life names one life of a process: an epoch is never used twice by an origin.
type life struct {
	origin uint64
	epoch  uint64
}

// batch is the hits of one partition in one flush, or its admissions.
type batch struct {
	partition int
	kind      uint64
	seq       uint64
	total     uint64
	n         uint64 // sum of the entries' N
	removes   bool   // some entry is a removal, or all before it is cleared
	cutAt     int64  // Unix ms: when its flush was cut, by its origin's clock
	entries   []byte // sound
}

// part is one message.
type part struct {
	life
	restored bool // it is of a backup (restored.go)
	flush    uint64
	part     uint64
	last     bool
	leaving  bool
	node     string
	at       int64
	batches  []batch
	receipts [][]byte
}

// encoder turns one flush after the other into parts.
type encoder struct {
	life
	node    string
	flush   uint64 // the current or last one
	at      int64  // Unix ms of the current one
	leaving bool   // it is the last
	version byte

	seqs   []uint64 // by partition
	totals []uint64 // by partition

	parts   [][]byte // of the current flush, finished
	batches []byte   // of the current part
	count   uint64   // of batches in it
	body    []byte   // of the current batch

	batchBytes, partBytes int // see maxBatchBytes
}

func newEncoder(l life, partitions int) *encoder {
	return &encoder{
		life: l, version: flushVersion, seqs: make([]uint64, partitions), totals: make([]uint64, partitions),
		batchBytes: maxBatchBytes, partBytes: maxPartBytes,
	}
}

// begin starts a flush; the parts of the one before are no longer needed.
func (e *encoder) begin(now time.Time) {
	e.flush++
	e.at = now.UnixMilli()
	e.parts, e.batches, e.count = nil, e.batches[:0], 0
}

// empty tells whether the flush has no batch so far; cancel takes it back then.
func (e *encoder) empty() bool { return e.count == 0 && len(e.parts) == 0 }
func (e *encoder) cancel()     { e.flush-- }

// add appends a partition's deltas as one batch, or several.
func (e *encoder) add(partition int, deltas []weir.Delta) {
	e.body = e.body[:0]
	key, at := "", int64(0)
	for i, d := range deltas {
		e.body = appendEntry(e.body, d, key, at)
		key = d.Key
		if d.N > 0 {
			at = d.At
			e.totals[partition] += d.N
		}
		if len(e.body) > e.batchBytes || i == len(deltas)-1 {
			e.closeBatch(partition, kindHits)
			e.body, key, at = e.body[:0], "", 0
		}
	}
}

// The kinds of batches. Version 2 of flushes has the first two.
const (
	kindHits = iota
	kindAdmissions
	kindWindows   // of keys, of a backup
	kindForgotten // hits of evicted keys, of a backup
	kindClear     // of the whole partition, before a backup replaces it
)

// kindBits is how many bits beside the partition say what a batch is.
func kindBits(version byte) uint {
	if version == flushVersion {
		return 1
	}
	return 3
}

// addAdmissions appends a partition's admissions as one batch, or several.
func (e *encoder) addAdmissions(partition int, list []weir.Admission) {
	e.body = e.body[:0]
	limit, at := "", int64(0)
	for i, a := range list {
		e.body = appendAdmission(e.body, a, limit, at)
		limit, at = a.Limit, a.At
		e.totals[partition] += a.N
		if len(e.body) > e.batchBytes || i == len(list)-1 {
			e.closeBatch(partition, kindAdmissions)
			e.body, limit, at = e.body[:0], "", 0
		}
	}
}

func appendAdmission(b []byte, a weir.Admission, lastLimit string, lastAt int64) []byte {
	limit := a.Limit
	if limit == lastLimit {
		limit = ""
	}
	b = binary.AppendUvarint(b, uint64(len(limit)))
	b = append(b, limit...)
	b = binary.AppendUvarint(b, uint64(len(a.Key)))
	b = append(b, a.Key...)
	b = binary.AppendVarint(b, a.At-lastAt)
	return binary.AppendUvarint(b, a.N)
}

func appendEntry(b []byte, d weir.Delta, lastKey string, lastAt int64) []byte {
	key := d.Key
	if key == lastKey {
		key = ""
	}
	if d.N == 0 {
		b = binary.AppendUvarint(b, uint64(len(key))<<1|1)
		return append(b, key...)
	}
	b = binary.AppendUvarint(b, uint64(len(key))<<1)
	b = append(b, key...)
	b = binary.AppendVarint(b, d.At-lastAt)
	return binary.AppendUvarint(b, d.N)
}

// restate repeats what a partition's batches come to so far, if it had any.
func (e *encoder) restate(partition int) {
	if e.body = e.body[:0]; e.seqs[partition] > 0 {
		e.appendBatch(partition, kindHits)
	}
}

func (e *encoder) closeBatch(partition int, kind uint64) {
	e.seqs[partition]++
	e.appendBatch(partition, kind)
}

func (e *encoder) appendBatch(partition int, kind uint64) {
	start := len(e.batches)
	b := binary.AppendUvarint(e.batches, uint64(partition)<<kindBits(e.version)|kind)
	b = binary.AppendUvarint(b, e.seqs[partition])
	b = binary.AppendUvarint(b, e.totals[partition])
	b = binary.AppendUvarint(b, uint64(len(e.body)))
	b = append(b, e.body...)
	e.batches = binary.LittleEndian.AppendUint32(b, e.life.sum(b[start:]))
	e.count++
	if len(e.batches) > e.partBytes {
		e.closePart(nil, false)
	}
}

// end finishes the flush and returns its parts, which stay valid. Receipts that
// do not fit into one part go into several: each counts only with all others.
func (e *encoder) end(receipts [][]byte) [][]byte {
	size, first := len(e.batches), 0
	for i, r := range receipts {
		if size += len(r); size > e.partBytes && i > first {
			e.closePart(receipts[first:i], false)
			size, first = len(r), i
		}
	}
	e.closePart(receipts[first:], true)
	return e.parts
}

func (e *encoder) closePart(receipts [][]byte, last bool) {
	b := make([]byte, 0, len(e.batches)+64)
	b = append(b, flushMagic, e.version)
	b = binary.LittleEndian.AppendUint64(b, e.origin)
	b = binary.AppendUvarint(b, e.epoch)
	b = binary.AppendUvarint(b, e.flush)
	b = binary.AppendUvarint(b, uint64(len(e.parts)))
	b = append(b, e.flags(last))
	b = wire.AppendText(b, e.node)
	b = binary.AppendUvarint(b, uint64(e.at))
	b = binary.AppendUvarint(b, e.count)
	b = append(b, e.batches...)
	b = appendReceipts(b, receipts)
	b = wire.Seal(b, 0)
	e.parts = append(e.parts, b)
	e.batches, e.count = e.batches[:0], 0
}

func appendReceipts(b []byte, receipts [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(receipts)))
	for _, r := range receipts {
		b = wire.AppendBlock(b, r)
	}
	return b
}

// sum is the checksum of a batch's bytes within this life.
func (l life) sum(b []byte) uint32 {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:], l.origin)
	binary.LittleEndian.PutUint64(id[8:], l.epoch)
	return wire.AddSum(wire.Sum(id[:]), b)
}

// Flags of a part.
const (
	flagLast = 1 << iota
	flagLeaving
)

func (e *encoder) flags(last bool) (b byte) {
	if last {
		b |= flagLast
	}
	if last && e.leaving {
		b |= flagLeaving
	}
	return b
}
