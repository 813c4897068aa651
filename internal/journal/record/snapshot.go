package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// Snapshot is a partition at a position of the journal. Its state contains each origin's batches up to seq of an
// epoch, and all batches of earlier epochs. Numbers are unsigned varints:
//
//	byte 0     'S'
//	byte 1     version, 5
//	8 bytes    origin that took it, little endian
//	           epoch, partition
//	           origins: how many, then each: 8 bytes origin, little endian;
//	               epoch, seq, total (see flush.go); hits that were lost
//	               epoch, flush: the last one up to from; 0 and 0: not known
//	               at; a byte: 1 if it has left; length of its node's name, name
//	           from: the sequence in the stream up to which nothing is needed
//	           length of the state, the state (package weir, state.go)
//	           receipts: how many, then each: length, bytes; partition 0 has all
//	           requests: how many, then each: 16 bytes of its ID, 8 bytes
//	               origin, little endian; epoch, flush, at; first flush, offset and hits of moves (SeenRequest); partition 0 has all
//	last 4     CRC-32C of all bytes before, little endian
type Snapshot struct {
	Incarnation
	Partition int
	Positions []OriginPosition
	From      uint64
	State     []byte
	Receipts  [][]byte
	Requests  []SeenRequest
}

// Position is how far a partition's batches of an origin were applied.
type Position struct {
	Epoch uint64
	Seq   uint64
	Total uint64
	Lost  uint64 // at least how many hits of batches that nobody had any more: above 0 when there may be any
}

// Head is the last flush of an origin.
type Head struct {
	Epoch uint64
	Flush uint64
}

// Before reports whether h is of an earlier incarnation than o, or earlier in the same one.
func (h Head) Before(o Head) bool {
	return h.Epoch < o.Epoch || h.Epoch == o.Epoch && h.Flush < o.Flush
}

// OriginPosition is how far an origin was followed.
type OriginPosition struct {
	Origin uint64
	Position
	Head Head // at the snapshot's from; zero: not known

	Node string
	At   int64
	Left bool
}

const (
	snapshotMagic   = 'S'
	snapshotVersion = 5
)

// Encode is the bytes of the snapshot, which DecodeSnapshot reads.
func (s Snapshot) Encode() []byte {
	b := make([]byte, 0, len(s.State)+80)
	return wire.Seal(wire.Append(append(b, snapshotMagic, snapshotVersion), func(c *wire.Codec) { s.fields(c, false) }), 0)
}

// DecodeSnapshot reads a snapshot; its state refers to data.
func DecodeSnapshot(data []byte) (s Snapshot, err error) {
	r, err := openSealed(data, snapshotMagic, "snapshot", snapshotVersion)
	if err != nil {
		return s, err
	}
	wire.Read(&r.Reader, func(c *wire.Codec) { s.fields(c, r.before) })
	return s, r.end()
}

// fields are all but the frame; before is as of reader.
func (s *Snapshot) fields(c *wire.Codec, before bool) {
	c.Uint64(&s.Origin)
	c.Uvarints(&s.Epoch)
	wire.Number(c, &s.Partition, MaxPartitions-1)
	wire.List(c, &s.Positions, math.MaxUint64, func(at *OriginPosition) {
		c.Uint64(&at.Origin)
		c.Uvarints(&at.Epoch, &at.Seq, &at.Total, &at.Lost, &at.Head.Epoch, &at.Head.Flush)
		wire.Number(c, &at.At, math.MaxInt64)
		c.Bool(&at.Left)
		c.Text(&at.Node, MaxNodeBytes)
	})
	c.Uvarints(&s.From)
	c.Block(&s.State)
	wire.List(c, &s.Receipts, math.MaxUint64, func(one *[]byte) {
		if c.Block(one); c.Reads() {
			*one = bytes.Clone(*one)
		}
	})
	wire.List(c, &s.Requests, math.MaxUint64, func(one *SeenRequest) { one.fields(c, before) })
}

// Each partition has two slots for its snapshots, written in turn, so that a damaged snapshot falls back to the one
// before. A slot is two subjects of the stream of snapshots. One has the snapshot's bytes in chunks. The other has one
// message, written after them, that makes them count: version 2, numbers as unsigned varints:
//
//	byte 0     'E'
//	byte 1     version, 2
//	           partition, slot (0 or 1), epoch, from (see snapshot)
//	           chunks: the snapshot is in so many messages right before this one
//	           length of the snapshot in bytes
//	last 4     CRC-32C of all bytes before, little endian
//
// (JetStream's object store needs more messages and syncs for each object, and leaves chunks behind after a crash. Its
// listing waits for ever when one of its messages is lost.)
const (
	endMagic   = 'E'
	endVersion = 2

	// Slots is how many snapshots of a partition are stored.
	Slots = 2
)

// StoredSnapshot is the snapshot in a slot, by the message that ends it.
type StoredSnapshot struct {
	Partition, Slot int
	Epoch, From     uint64
	Length          uint64
	Chunks          []uint64 // their sequences
	Sequence        uint64   // of that message
}

// SlotName names a slot in subjects and findings: the partition, and a or b.
func SlotName(partition, slot int) string {
	return fmt.Sprintf("%d%c", partition, 'a'+slot)
}

// Encode is the message that ends the snapshot.
func (l StoredSnapshot) Encode() []byte {
	return wire.Seal(wire.Append([]byte{endMagic, endVersion}, l.fields), 0)
}

// DecodeStored reads and checks the message that ends a snapshot; it does not know its Sequence.
func DecodeStored(data []byte) (l StoredSnapshot, err error) {
	r, err := openSealed(data, endMagic, "end of a snapshot", endVersion)
	if err != nil {
		return l, err
	}
	wire.Read(&r.Reader, l.fields)
	return l, r.end()
}

func (l *StoredSnapshot) fields(c *wire.Codec) {
	wire.Number(c, &l.Partition, math.MaxInt)
	wire.Number(c, &l.Slot, math.MaxInt)
	c.Uvarints(&l.Epoch, &l.From, &l.Length)
	before := uint64(0)
	wire.List(c, &l.Chunks, math.MaxUint64, func(sequence *uint64) {
		further := *sequence - before
		c.Uvarints(&further)
		before += further
		*sequence = before
	})
}

// SpoiledSnapshot is the finding of a snapshot that can't be used.
func SpoiledSnapshot(partition, slot int, err error) Finding {
	return Finding{
		Where: "snapshot " + SlotName(partition, slot), What: err.Error(),
		Cost: "none if the one before and the journal after it are sound", Harmless: true,
	}
}

// A backup is restored into a journal in use as batches of windows. A key's window of the backup and its window in
// memory merge. So the bounds stay as they are, and the slots as narrow as they were. The entries of these batches,
// numbers as unsigned varints:
//
//	kind 2, windows     length of the key, the key, length of the window, the window
//	                    (package window). A length of 0: all hits of the partition
//	kind 3, evicted     place, hits, second of the newest: hits of evicted keys
//	kind 4, clear       one byte, 1: all hits that are before it are gone
//
// Their N is 1. They have an origin of their own, derived from the backup (package restore). So a backup that is
// restored again writes the same batches, and replicas drop them.

// AppendWindowEntry appends an entry of a batch of KindWindows.
func AppendWindowEntry(b []byte, key string, w *window.Window) []byte {
	encoded, _ := w.MarshalBinary() // never fails
	return wire.AppendBlock(wire.AppendText(b, key), encoded)
}

// AppendEvictedEntry appends an entry of a batch of KindEvicted.
func AppendEvictedEntry(b []byte, f replication.Evicted) []byte {
	b = binary.AppendUvarint(b, uint64(f.Place))
	b = binary.AppendUvarint(b, f.Hits)
	return binary.AppendUvarint(b, uint64(f.Newest))
}

// AddRestored appends a batch of a restored kind, with n entries.
func (e *Encoder) AddRestored(partition int, kind uint64, entries []byte, n uint64) {
	e.body = append(e.body[:0], entries...)
	e.Totals[partition] += n
	e.closeBatch(partition, kind)
}

// CheckRestored is check for a batch of a restored kind.
func (b *Batch) CheckRestored() (sound bool) {
	switch b.Kind {
	case KindWindows:
		_, sound = b.Windows()
	case KindEvicted:
		_, sound = b.Evicted()
	case KindClear:
		b.N, b.Removes, sound = 1, true, len(b.Entries) == 1 && b.Entries[0] == 1
	}
	return sound
}

// Windows are the entries of a batch of windows, which it counts in N.
func (b *Batch) Windows() (list []replication.KeyWindow, sound bool) {
	sound = eachRead(b.Entries, func(r *wire.Reader) (one replication.KeyWindow) {
		one.Key = r.Text(engine.MaxKeyBytes)
		if one.Window.UnmarshalBinary(r.Block()) != nil {
			r.Fail()
		}
		return one
	}, func(one replication.KeyWindow) { list = append(list, one) })
	b.N = uint64(len(list))
	return list, sound
}

// Evicted are the entries of a batch of KindEvicted, which it counts in N.
func (b *Batch) Evicted() (list []replication.Evicted, sound bool) {
	sound = eachRead(b.Entries, func(r *wire.Reader) replication.Evicted {
		return replication.Evicted{Place: int(r.AtMost(replication.EvictedOfAll)), Hits: r.Uvarint(), Newest: int64(r.AtMost(window.MaxTime))}
	}, func(one replication.Evicted) { list = append(list, one) })
	b.N = uint64(len(list))
	return list, sound
}

// BackupName is the node's name in flushes of a backup that is merged. No node can have it.
func BackupName(id uint64) string { return "(backup " + strconv.FormatUint(id, 16) + ")" }

// ReplacingBackup is the node name in flushes of every backup that replaces all hits, whatever its id. Once a second
// such backup has begun, nothing more arrives of one that was cut off, as with two nodes of one name.
const ReplacingBackup = "(replacing backup)"

// IsBackupName reports whether a node's name stands for a backup.
func IsBackupName(node string) bool { return len(node) > 0 && node[0] == '(' }
