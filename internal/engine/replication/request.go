package replication

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// RequestID identifies a request with an idempotency key by the key, the content and how many hits were counted. If two nodes counted
// different numbers of hits of one request, because one refused the rest, the IDs differ: neither stands for the other.
type RequestID [16]byte

// Request is what one request with an idempotency key counted at one node. It is in the cut that has its hits. Where the journal has the
// same request of another node before it, readers of the journal leave its hits out: see replica.
//
// A Request with a Move is hits that were read of a topic: ID identifies the topic, not the request.
type Request struct {
	ID   RequestID
	Move Move         // zero: a request with an idempotency key
	Hits []RequestHit // by Key and At, each once; of a Move none where nobody else writes the journal
}

// Position is a place in one partition of a topic: the offset of the next message, and how many of its hits are counted already.
type Position struct{ Offset, Hits uint64 }

// Compare orders positions.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Offset, o.Offset), cmp.Compare(p.Hits, o.Hits))
}

// Move says that the hits of a topic between two positions are counted by the cut that has it. Of two moves from one position the
// journal's first one counts (package replica).
type Move struct{ From, To Position }

// RequestHit is the hits of one key in one second.
type RequestHit struct {
	Key uint64 // KeySum of the key, or After
	At  int64  // Unix second
	N   uint64
}

// KeySum identifies a key in a Request. Journals keep it: it never changes.
func KeySum(key string) uint64 { return xxhash.Sum64String(key) }

// After is the KeySum of a key for hits that come after so many of its removals in their cut: a reader that leaves hits out
// takes none from before them. Journals keep it too.
func After(sum, removals uint64) uint64 {
	if removals == 0 {
		return sum
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], sum)
	binary.LittleEndian.PutUint64(b[8:], removals)
	return xxhash.Sum64(b[:])
}

// RequestRecorder collects the hits of a request while it is applied. A nil recorder collects nothing.
type RequestRecorder struct{ hits []RequestHit }

// Add notes n hits of a key that were counted at a second, after so many removals of the key since the last cut.
//
// Cost: amortized O(1).
func (r *RequestRecorder) Add(second int64, key string, removals, n uint64) {
	if r == nil {
		return
	}
	sum := After(KeySum(key), removals)
	if last := len(r.hits) - 1; last >= 0 && r.hits[last].Key == sum && r.hits[last].At == second && r.hits[last].N <= math.MaxUint64-n {
		r.hits[last].N += n
		return
	}
	r.hits = append(r.hits, RequestHit{sum, second, n})
}

// Request returns what was collected; false if it was nothing.
func (r *RequestRecorder) Request(key string, fingerprint uint64) (Request, bool) {
	if r == nil || len(r.hits) == 0 {
		return Request{}, false
	}
	merged, total := r.merge()
	b := make([]byte, 16, 16+len(key))
	binary.LittleEndian.PutUint64(b, fingerprint)
	binary.LittleEndian.PutUint64(b[8:], total)
	sum := sha256.Sum256(append(b, key...))
	return Request{ID: RequestID(sum[:16]), Hits: merged}, true
}

// Moved returns what was collected of a topic.
func (r *RequestRecorder) Moved(topic RequestID, move Move) Request {
	if r == nil {
		return Request{ID: topic, Move: move}
	}
	hits, _ := r.merge()
	return Request{ID: topic, Move: move, Hits: hits}
}

// merge sorts the hits, and has each key and second once.
func (r *RequestRecorder) merge() (merged []RequestHit, total uint64) {
	slices.SortFunc(r.hits, func(a, b RequestHit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.At, b.At)) })
	merged = r.hits[:0]
	for _, h := range r.hits {
		total += h.N
		if last := len(merged) - 1; last >= 0 && merged[last].Key == h.Key && merged[last].At == h.At && merged[last].N <= math.MaxUint64-h.N {
			merged[last].N += h.N
			continue
		}
		merged = append(merged, h)
	}
	return slices.Clip(merged), total
}
