package record

import (
	"encoding/binary"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// A flush is what one origin gathered in one flush interval: batches of several
// partitions, and receipts. It leaves in one message, or in several parts where
// one would be too large; a flush counts only when all its parts are there. The
// bytes of a part, numbers as unsigned varints:
//
//	byte 0     'F'
//	byte 1     version, 7
//	8 bytes    origin, little endian
//	           epoch
//	           flush, contiguous from 1 in an epoch
//	           part, from 0; a byte of flags: 1 if this is the flush's last part,
//	           2 if its origin takes no more hits after it, 4 if it is of a
//	           restored backup
//	           node: length of its name, name; empty for one alone
//	           at: Unix ms when the origin began to gather the flush: it and those
//	           before have every hit that the origin took until then
//	           batches: how many, then each:
//	               partition << 5 | kind
//	               seq, contiguous from 1 in a partition, over all epochs; with
//	                    no entries, that of the last one, again
//	               total: sum of N of this origin's batches of the partition,
//	                      this one included, modulo 2^64
//	               length of the entries in bytes, the entries
//	               4 bytes CRC-32C of the batch, from its partition on, and of
//	               origin and epoch
//	           receipts: how many, then each: length, bytes
//	           requests (entries.go): how many, then each: length, bytes
//	last 4     CRC-32C of all bytes before, little endian
//
// An entry is a key's hits in one second, or its removal:
//
//	head = length of key << 1 | removal; a length of 0 is the key before
//	key
//	unless removal: at, as a zigzag difference to the entry before (at first
//	                to 0), and N
//
// A batch of kind 5 has hits in the same form, without removals: they are older than the
// retention and for history alone (package history). One of kind 6 has no entries: Encoder.Claim.
//
// One of kind 8 has ids of keys, after the flush's hits of the partition: replication.AppendDistinct.
//
// An entry of admissions, of limits that survive a restart or that nodes share:
//
//	length of the limit, 0 is the one before; limit; length of the key; key; at
//	and N, as with hits, but at in Unix ms
//
// An entry of a batch of kind 7 is a change to what a key has used of a limit (replication.Change). In a flush its
// batches come before the partition's batches of admissions.
const (
	flushMagic   = 'F'
	flushVersion = 7

	FlushOriginAt = 2 // the place of the origin in a part

	// MaxBatchBytes and MaxPartBytes keep a part below the 1 MiB that a NATS server accepts. A batch or a part is
	// closed as soon as it exceeds its size.
	MaxBatchBytes = 128 << 10
	MaxPartBytes  = 512 << 10
)

// Incarnation names one life of a process: an epoch is never used twice by an origin.
type Incarnation struct {
	Origin uint64
	Epoch  uint64
}

// Batch is the hits of one partition in one flush, or its admissions.
type Batch struct {
	Partition int
	Kind      uint64
	Seq       uint64
	Total     uint64
	N         uint64 // sum of the entries' N
	Removes   bool   // some entry is a removal, or all before it is cleared
	CutAt     int64  // Unix ms: when its flush was cut, by its origin's clock
	Message   uint64 // of the journal, with which its flush was whole
	Entries   []byte // sound
	count     int    // of entries of hits

	// Then is set by package replica, of a clear: the batches of the same flush and partition
	// that follow it. They take the place of what it clears, all at once.
	Then []Batch

	Less []replication.Delta // hits that Without has left out, and all removals, in order; nil: it left none out
}

// Part is one message.
type Part struct {
	Incarnation
	Restored bool // it is of a backup
	Flush    uint64
	Number   uint64
	Last     bool
	Leaving  bool
	Node     string
	At       int64
	Batches  []Batch
	Receipts [][]byte
	Requests []replication.Request // those with many hits in several pieces
}

// Encoder turns one flush after the other into parts.
type Encoder struct {
	Incarnation
	Node     string
	Flush    uint64 // the current or last one
	at       int64  // Unix ms of the current one
	Leaving  bool   // it is the last
	Restored bool   // it is of a backup

	Seqs   []uint64 // by partition
	Totals []uint64 // by partition

	parts   [][]byte // of the current flush, finished and not drained
	drained int      // parts of the current flush that were
	batches []byte   // of the current part
	count   uint64   // of batches in it
	body    []byte   // of the current batch

	BatchBytes, PartBytes int // see MaxBatchBytes
}

// NewEncoder returns an encoder whose first flush is number 1 and whose batches follow 0. An incarnation that
// continues earlier ones sets Seqs and Totals.
func NewEncoder(l Incarnation, partitions int) *Encoder {
	return &Encoder{
		Incarnation: l, Seqs: make([]uint64, partitions), Totals: make([]uint64, partitions),
		BatchBytes: MaxBatchBytes, PartBytes: MaxPartBytes,
	}
}

// Size is the bytes of the current part's batches.
func (e *Encoder) Size() int { return len(e.batches) }

// Begin starts a flush; the parts of the one before are no longer needed.
func (e *Encoder) Begin(now time.Time) {
	e.Flush++
	e.at = now.UnixMilli()
	e.parts, e.drained, e.batches, e.count = nil, 0, e.batches[:0], 0
}

// Drain returns the parts of the current flush that are finished so far. End returns the others.
func (e *Encoder) Drain() (parts [][]byte) {
	parts, e.parts = e.parts, nil
	e.drained += len(parts)
	return parts
}

// Empty reports whether the flush has no batch so far; Cancel takes it back then.
func (e *Encoder) Empty() bool { return e.count == 0 && len(e.parts)+e.drained == 0 }

// Cancel takes back Begin of a flush that is Empty.
func (e *Encoder) Cancel() { e.Flush-- }

// Add appends a partition's deltas as one batch, or several.
func (e *Encoder) Add(partition int, deltas []replication.Delta) {
	e.addDeltas(partition, KindHits, deltas)
}

// AddPast is Add for hits that only history uses. A removal in Add also removes such hits in batches before it.
func (e *Encoder) AddPast(partition int, hits []replication.Delta) {
	e.addDeltas(partition, KindPast, hits)
}

func (e *Encoder) addDeltas(partition int, kind uint64, deltas []replication.Delta) {
	key, at := "", int64(0)
	addEach(e, partition, kind, deltas, func(b []byte, d *replication.Delta, first bool) ([]byte, uint64) {
		if first {
			key, at = "", 0
		}
		b = appendEntry(b, *d, key, at)
		if key = d.Key; d.N > 0 {
			at = d.At
		}
		return b, d.N
	})
}

// addEach appends a list as one batch, or several. add appends the bytes of an entry, the first of a batch or not, and returns
// what it adds to the partition's total.
func addEach[T any](e *Encoder, partition int, kind uint64, list []T, add func(b []byte, one *T, first bool) ([]byte, uint64)) {
	e.body = e.body[:0]
	for i := range list {
		var n uint64
		e.body, n = add(e.body, &list[i], len(e.body) == 0)
		e.Totals[partition] += n
		if len(e.body) > e.BatchBytes || i == len(list)-1 {
			e.closeBatch(partition, kind)
			e.body = e.body[:0]
		}
	}
}

// The kinds of batches: what their entries are. A build refuses a flush with a kind that it
// does not know, by name.
const (
	KindHits = iota
	KindAdmissions
	KindWindows  // of keys, of a backup
	KindEvicted  // hits of evicted keys, of a backup
	KindClear    // of the whole partition, before a backup replaces it
	KindPast     // hits for history alone: older than the retention, in no window
	KindClaim    // no entries: from here on its origin owns the limits of the partition's group
	KindChanges  // to what keys have used of limits
	KindDistinct // ids of keys: new ones, or of a backup
	kinds
)

// kindBits is how many bits below the partition hold a batch's kind.
const kindBits = 5

// AddAdmissions appends a partition's admissions as one batch, or several.
func (e *Encoder) AddAdmissions(partition int, list []replication.Admission) {
	limit, at := "", int64(0)
	addEach(e, partition, KindAdmissions, list, func(b []byte, a *replication.Admission, first bool) ([]byte, uint64) {
		if first {
			limit, at = "", 0
		}
		b = appendAdmission(b, *a, limit, at)
		limit, at = a.Limit, a.At
		return b, a.N
	})
}

// AddChanges appends changes of a partition as one batch, or several.
func (e *Encoder) AddChanges(partition int, list []replication.Change) {
	addEach(e, partition, KindChanges, list, func(b []byte, one *replication.Change, _ bool) ([]byte, uint64) {
		return replication.AppendChange(b, *one), 1
	})
}

// AddDistinct appends ids of keys of a partition as one batch, or several.
func (e *Encoder) AddDistinct(partition int, list []replication.KeyDistinct) {
	var scratch []byte
	addEach(e, partition, KindDistinct, list, func(b []byte, one *replication.KeyDistinct, _ bool) ([]byte, uint64) {
		return one.AppendDistinct(b, &scratch), 1
	})
}

func appendAdmission(b []byte, a replication.Admission, lastLimit string, lastAt int64) []byte {
	limit := a.Limit
	if limit == lastLimit {
		limit = ""
	}
	b = binary.AppendVarint(wire.AppendText(wire.AppendText(b, limit), a.Key), a.At-lastAt)
	return binary.AppendUvarint(b, a.N)
}

func appendEntry(b []byte, d replication.Delta, lastKey string, lastAt int64) []byte {
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

// Restate repeats what a partition's batches come to so far, if it had any.
func (e *Encoder) Restate(partition int) {
	if e.body = e.body[:0]; e.Seqs[partition] > 0 {
		e.appendBatch(partition, KindHits)
	}
}

// Claim says that the origin owns the limits of a partition's group from this flush on. It repeats what the partition's
// batches come to so far.
func (e *Encoder) Claim(partition int) {
	e.body = e.body[:0]
	e.appendBatch(partition, KindClaim)
}

func (e *Encoder) closeBatch(partition int, kind uint64) {
	e.Seqs[partition]++
	e.appendBatch(partition, kind)
}

func (e *Encoder) appendBatch(partition int, kind uint64) {
	start := len(e.batches)
	b := binary.AppendUvarint(e.batches, uint64(partition)<<kindBits|kind)
	b = binary.AppendUvarint(b, e.Seqs[partition])
	b = binary.AppendUvarint(b, e.Totals[partition])
	b = wire.AppendBlock(b, e.body)
	e.batches = binary.LittleEndian.AppendUint32(b, e.Incarnation.sum(b[start:]))
	e.count++
	if len(e.batches) > e.PartBytes {
		e.closePart(nil, nil, false)
	}
}

// End finishes the flush and returns its parts, which stay valid. Receipts and requests that
// do not fit into one part go into several: each counts only with all others.
func (e *Encoder) End(receipts [][]byte, requests ...replication.Request) [][]byte {
	size := len(e.batches)
	var part struct{ receipts, requests [][]byte }
	add := func(to *[][]byte, b []byte) {
		if size += len(b); size > e.PartBytes && len(part.receipts)+len(part.requests) > 0 {
			e.closePart(part.receipts, part.requests, false)
			size, part.receipts, part.requests = len(b), nil, nil
		}
		*to = append(*to, b)
	}
	for _, r := range receipts {
		add(&part.receipts, r)
	}
	for _, r := range requests {
		for _, piece := range encodeRequest(r, e.BatchBytes) {
			add(&part.requests, piece)
		}
	}
	e.closePart(part.receipts, part.requests, true)
	return e.parts
}

func (e *Encoder) closePart(receipts, requests [][]byte, last bool) {
	b := make([]byte, 0, len(e.batches)+64)
	b = append(b, flushMagic, flushVersion)
	b = binary.LittleEndian.AppendUint64(b, e.Origin)
	b = binary.AppendUvarint(b, e.Epoch)
	b = binary.AppendUvarint(b, e.Flush)
	b = binary.AppendUvarint(b, uint64(e.drained+len(e.parts)))
	b = append(b, e.flags(last))
	b = wire.AppendText(b, e.Node)
	b = binary.AppendUvarint(b, uint64(e.at))
	b = binary.AppendUvarint(b, e.count)
	b = append(b, e.batches...)
	b = appendReceipts(appendReceipts(b, receipts), requests)
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
func (l Incarnation) sum(b []byte) uint32 { return wire.AddSum(l.seed(), b) }

// seed is the checksum of the life alone.
func (l Incarnation) seed() uint32 {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:], l.Origin)
	binary.LittleEndian.PutUint64(id[8:], l.Epoch)
	return wire.Sum(id[:])
}

// Flags of a part.
const (
	flagLast = 1 << iota
	flagLeaving
	flagRestored
)

func (e *Encoder) flags(last bool) (b byte) {
	if last {
		b |= flagLast
	}
	if last && e.Leaving {
		b |= flagLeaving
	}
	if e.Restored {
		b |= flagRestored
	}
	return b
}

// SizeOf is the bytes of all parts of a flush.
func SizeOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
