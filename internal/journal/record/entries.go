// Package record defines the bytes of the journal: the parts and batches of a flush, the snapshot of a partition and
// its end message, and findings of damage.
//
// Invariants:
//   - DecodePart reads what an Encoder writes, whatever the number of parts.
//   - A checksum detects each changed or missing byte, and the error wraps ErrDamaged.
//   - A version that this build does not know is refused by its number, and is not damage.
//   - Batches of a decoded part are sound: each entry can be read.
//
// It knows no clock, no network and no disk. Package replica decides with these records, package stream stores them.
package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
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
	case KindChanges:
		return b.eachChange(func(replication.Change) { b.N++ })
	case KindDistinct:
		return b.eachDistinct(func(replication.KeyDistinct) { b.N++ })
	case KindClaim:
		return len(b.Entries) == 0
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
// which nobody changes: copy a key to keep it for long.
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

// Changes are the entries of a batch of changes; nil of another.
func (b *Batch) Changes() (list []replication.Change) {
	if b.Kind == KindChanges {
		b.eachChange(func(one replication.Change) { list = append(list, one) })
	}
	return list
}

// eachChange calls f with each change, up to one that is impossible.
func (b *Batch) eachChange(f func(one replication.Change)) (sound bool) {
	return eachRead(b.Entries, replication.ReadChange, f)
}

// eachRead calls f with what read reads of entries, up to one that is impossible.
func eachRead[T any](entries []byte, read func(r *wire.Reader) T, f func(one T)) (sound bool) {
	r := wire.NewReader(entries)
	for r.Len() > 0 {
		one := read(r)
		if r.Failed() {
			return false
		}
		f(one)
	}
	return !r.Failed()
}

// Distinct are the entries of a batch of ids; nil of another.
func (b *Batch) Distinct() (list []replication.KeyDistinct) {
	if b.Kind == KindDistinct {
		b.eachDistinct(func(one replication.KeyDistinct) { list = append(list, one) })
	}
	return list
}

// eachDistinct calls f with the ids of each key, up to those that are impossible.
func (b *Batch) eachDistinct(f func(one replication.KeyDistinct)) (sound bool) {
	return eachRead(b.Entries, func(r *wire.Reader) replication.KeyDistinct { return replication.ReadDistinct(r, window.MaxSeconds) }, f)
}

// OfLimits reports whether a batch is about limits, and has no hits.
func (b *Batch) OfLimits() bool { return b.Kind == KindAdmissions || b.Kind == KindChanges }

// eachDelta calls f with each entry of hits and stops at the first impossible one. The key is Entries[from:to]. n = 0
// means that the key is removed.
func (b *Batch) eachDelta(f func(from, to int, at int64, n uint64)) (sound bool) {
	var head, difference, n uint64
	var from, to int
	var at int64
	for place := 0; place < len(b.Entries); {
		head, place = wire.UvarintAt(b.Entries, place)
		if length := head >> 1; length > 0 {
			if length > engine.MaxKeyBytes {
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

// eachAdmission calls f with each admission and stops at the first impossible one. other says that the limit differs
// from the limit of the entry before.
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

// ClockSet is one time that the time of day was set.
type ClockSet struct {
	After uint64 `json:"after"` // last message of the journal before it
	MS    int64  `json:"ms"`    // by how much it was set forward; below 0: back
}

// ClockSets lists, in order, when the time of day was set while the directory was in use.
//
// Limits run on a monotonic clock, but the journal records their times as time of day. If the time of day is set
// forward and the process then crashes, journaled times would seem older than they are, and would be forgotten early.
// So the manifest stores each set, with the last message whose times come from the clock before it. A start adds the
// amount to the times in messages up to that one. A set back needs no correction: a time that seems to lie in the future
// counts as now. Its amount is stored too, because it may undo an earlier set forward.
//
// Not covered are a set less than a flush interval before the crash, and a set while no process ran. Nor is a set of
// the clocks of all nodes of a cluster while this node did not run. A suspended machine has the same effect as a set
// clock: its limits do not count the suspended time.
type ClockSets []ClockSet

// maxClockSets bounds the list; older ones are put together.
const maxClockSets = 64

// Since returns by how much the time of day was set forward since a message, or since a snapshot that goes up to it.
// It is 0 if the time of day was set back.
func (list ClockSets) Since(sequence uint64) time.Duration {
	sum := int64(0)
	for _, s := range list {
		if s.After >= sequence {
			sum += s.MS
		}
	}
	return time.Duration(max(sum, 0)) * time.Millisecond
}

// With is the list and one more. Where there are too many, the oldest two become one, which
// counts no less for any message.
func (list ClockSets) With(s ClockSet) ClockSets {
	all := append(list[:len(list):len(list)], s)
	if len(all) > maxClockSets {
		all[1].MS += max(all[0].MS, 0)
		all = all[1:]
	}
	return all
}

// Each journal has an identity: a random number in the metadata of its streams and in the manifest of each node. It
// keeps a node from using the journal of others after a mix-up of directories, of --peers or of a NATS.

// NewJournalID is never 0, which means: not known.
func NewJournalID() uint64 { return rand.Uint64()>>1 + 1 }

// JournalText is an identity as everybody writes it: 16 hexadecimal digits.
func JournalText(id uint64) string { return fmt.Sprintf("%016x", id) }

// rewrite replaces the entries of a batch of hits by the entries of list that keep accepts. keep may change an entry.
func (b *Batch) rewrite(list []replication.Delta, keep func(d *replication.Delta) bool) {
	b.Entries, b.N, b.Removes, b.count = nil, 0, false, 0
	key, at := "", int64(0)
	var d replication.Delta
	for _, d = range list {
		if !keep(&d) {
			continue
		}
		b.Entries = appendEntry(b.Entries, d, key, at)
		if key = d.Key; d.N > 0 {
			at = d.At
		}
		b.N, b.Removes, b.count = b.N+min(d.N, math.MaxUint64-b.N), b.Removes || d.N == 0, b.count+1
	}
}

// A request is what one request with an idempotency key counted, of the hits in the batches of its flush. Where another flush
// before has the same request, the hits count once: its readers leave them out of this one (Batch.Without). The bytes, numbers as
// unsigned varints:
//
//	16 bytes   ID (replication.RequestID)
//	           offset and hits of a move's From and To; all 0: it is none
//	then each: 8 bytes sum of the key (replication.After), little endian; at, as a zigzag difference to the one before; N
//
// One with many hits is in several pieces with the same ID.

// encodeRequest returns pieces of about so many bytes at most.
func encodeRequest(r replication.Request, most int) (pieces [][]byte) {
	begin := slices.Clone(r.ID[:])
	for _, v := range []uint64{r.Move.From.Offset, r.Move.From.Hits, r.Move.To.Offset, r.Move.To.Hits} {
		begin = binary.AppendUvarint(begin, v)
	}
	var b []byte
	at := int64(0)
	if len(r.Hits) == 0 {
		b = begin
	}
	for _, h := range r.Hits {
		if b == nil {
			b, at = slices.Clone(begin), 0
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
		if !r.before {
			one.Move.From = replication.Position{Offset: e.Uvarint(), Hits: e.Uvarint()}
			one.Move.To = replication.Position{Offset: e.Uvarint(), Hits: e.Uvarint()}
		}
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

// SeenRequest is a request and the flush that counts it; or the moves of a topic that one life of a node made in a row.
type SeenRequest struct {
	ID replication.RequestID
	Incarnation
	Flush uint64               // of moves, the last one
	At    int64                // of the flush, Unix ms
	First uint64               // of moves: the first flush that has one; 0: it is a request
	To    replication.Position // of the last move
}

// fields are what a snapshot has of a request; before is as of reader.
func (s *SeenRequest) fields(c *wire.Codec, before bool) {
	c.Raw(s.ID[:])
	c.Uint64(&s.Origin)
	c.Uvarints(&s.Epoch, &s.Flush)
	if wire.Number(c, &s.At, math.MaxInt64); !before {
		c.Uvarints(&s.First, &s.To.Offset, &s.To.Hits)
	}
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
		hit := replication.RequestHit{Key: replication.After(sum, removals), At: d.At}
		some := min(l.hits[hit], d.N-n)
		l.hits[hit] -= some
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
