package region

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-counter/weir/internal/journal/record"
)

// A Ledger is what a region's log says: how far it has the digests of each region, which messages are new, and where a
// reader with less must begin. All readers of the log come to the same result.
//
// Invariants: a digest counts once, as a whole, in the order of its epoch. An epoch begins with a base, or with the end of a
// region that was forgotten. Epochs only increase. The running totals of each partition continue from digest to digest; any
// other total is counted as wrong. Unfinished digests count nowhere.
//
// It is pure: no clock, no network, no engine.

// Ledger is made by Take of a log's messages, in order. It is not safe for many goroutines.
type Ledger struct {
	next    uint64 // message of the log
	regions map[string]*LedgerRegion
}

// LedgerRegion is what the log has of one region.
type LedgerRegion struct {
	Name string
	ID
	Gone  bool
	At    int64 // Unix ms: it has all hits that the region took until then, except for hits of late nodes
	Note  *Note // of the last digest or base; nil: there is none, or it is gone
	Audit Audit

	parts []record.Part // of the next digest, so far
	begun []*building   // bases of which the last piece has not come, the one that grew last at the end: at most mostBegun
	bases []whole       // the newest two
	list  []mark        // digests, and the end of the region
	bytes int64         // of digests after the newest base
	first uint64        // message of parts[0]
	size  int64         // bytes of parts
}

// mark is where something begins in the log.
type mark struct {
	ID
	began uint64
	bytes int64
}

// mostBegun is how many bases of a region may have begun. Links that break in turn bring pieces of different ones.
const mostBegun = 4

// building is a base of which some pieces have come.
type building struct {
	mark
	pieces []uint64 // a hash of each piece with all pieces before it
	audit  Audit
}

// whole is a base that is whole in the log.
type whole struct {
	mark
	last uint64 // message with its last piece
}

// Audit is the batches of each partition so far, and how many had a wrong total.
type Audit struct {
	Seqs, Totals []uint64 // by partition
	Wrong        uint64   // batches whose seq or total was not the next
}

// NewLedger returns the Ledger of a log that begins with a message.
func NewLedger(first uint64) *Ledger {
	return &Ledger{next: first, regions: map[string]*LedgerRegion{}}
}

// Next returns the message to take now.
func (l *Ledger) Next() uint64 { return l.next }

// Region returns what the log has of a region; nil: nothing.
func (l *Ledger) Region(name string) *LedgerRegion { return l.regions[name] }

// Regions returns the names of the regions that the log has something of, sorted.
func (l *Ledger) Regions() []string { return slices.Sorted(maps.Keys(l.regions)) }

// Have returns the last whole digest of each region.
func (l *Ledger) Have() map[string]ID {
	have := make(map[string]ID, len(l.regions))
	for name, r := range l.regions {
		if r.Epoch > 0 {
			have[name] = r.ID
		}
	}
	return have
}

// Event is what a message completes.
type Event struct {
	Kind   VerdictKind
	Region *LedgerRegion
	Parts  []record.Part // of a Digest
}

// VerdictKind is the kind of an Event.
type VerdictKind int

// The kinds of events.
const (
	Nothing    VerdictKind = iota // it is known already, or more must come
	Digest                        // a digest is whole: its parts count
	Base                          // a base is whole, and ahead of what is here: it replaces that
	SameBase                      // a base is whole that is at the digest which is here
	LedgerGone                    // the region has no hits any more
)

// Take takes the log's next message. A damaged one is taken as a zero Message.
func (l *Ledger) Take(sequence uint64, bytes int, m Message) Event {
	l.next = max(l.next, sequence+1)
	if m.Region == "" {
		return Event{}
	}
	r := l.regions[m.Region]
	if r == nil {
		r = &LedgerRegion{Name: m.Region}
		l.regions[m.Region] = r
	}
	at := mark{m.ID, sequence, int64(bytes)}
	switch {
	case m.Piece != nil:
		return r.takePiece(at, m)
	case m.Gone:
		return r.takeGone(at, m)
	}
	return r.takePart(at, m)
}

func (r *LedgerRegion) takeGone(at mark, m Message) Event {
	if m.Epoch <= r.Epoch {
		return Event{Region: r}
	}
	*r = LedgerRegion{Name: r.Name, ID: m.ID, Gone: true, At: m.At, list: []mark{at}}
	return Event{Kind: LedgerGone, Region: r}
}

func (r *LedgerRegion) takePart(at mark, m Message) Event {
	none := Event{Region: r}
	if r.Gone || m.Epoch != r.Epoch || m.Seq != r.Seq+1 {
		return none
	}
	switch m.Number {
	case 0: // a writer may have left one unfinished, and the next began anew
		r.parts, r.first, r.size = nil, at.began, 0
	case uint64(len(r.parts)):
	default:
		return none
	}
	r.size += at.bytes
	if r.parts = append(r.parts, m.Part); !m.Last {
		return none
	}
	parts := r.parts
	r.list = append(r.list, mark{m.ID, r.first, r.size})
	r.bytes += r.size
	r.ID, r.At, r.Note, r.parts = m.ID, m.At, m.Note, nil
	r.dropBegun(func(b *building) bool { return b.Before(r.ID) })
	r.Audit.look(parts)
	return Event{Kind: Digest, Region: r, Parts: parts}
}

func (a *Audit) grow(partitions int) {
	for len(a.Seqs) < partitions {
		a.Seqs, a.Totals = append(a.Seqs, 0), append(a.Totals, 0)
	}
}

// look goes on with the batches of a digest.
func (a *Audit) look(parts []record.Part) {
	for _, p := range parts {
		for _, b := range p.Batches {
			if b.Partition >= len(a.Seqs) {
				a.Wrong++
				continue
			}
			seq, total := &a.Seqs[b.Partition], &a.Totals[b.Partition]
			if len(b.Entries) > 0 {
				*seq, *total = *seq+1, *total+b.N
			}
			if b.Seq != *seq || b.Total != *total {
				a.Wrong++
				*seq, *total = b.Seq, b.Total
			}
		}
	}
}

func (r *LedgerRegion) takePiece(at mark, m Message) Event {
	none := Event{Region: r}
	if m.ID.Before(r.ID) {
		return none
	}
	b := r.base(m.ID)
	switch {
	case m.Number == 0:
		b = r.begin(at)
	case b == nil || !b.goesOn(m):
		return none
	}
	r.dropBegun(func(other *building) bool { return other == b })
	r.begun = append(r.begun, b)
	b.pieces = append(b.pieces, NextHash(m.Piece.Before, m.Encode()))
	b.bytes += at.bytes
	if !m.Last && m.Piece.Whole {
		b.audit.grow(m.Piece.Partition + 1)
		b.audit.Seqs[m.Piece.Partition], b.audit.Totals[m.Piece.Partition] = m.Piece.Seq, m.Piece.Total
	}
	if !m.Last {
		return none
	}
	r.bytes = 0
	r.dropBegun(func(other *building) bool { return !b.Before(other.ID) })
	if r.bases = append(r.bases, whole{b.mark, at.began}); len(r.bases) > 2 {
		r.bases = r.bases[1:]
	}
	if !r.ID.Before(m.ID) {
		return Event{Kind: SameBase, Region: r}
	}
	b.audit.grow(m.Note.Partitions)
	b.audit.Wrong = r.Audit.Wrong
	r.ID, r.At, r.Note, r.Gone, r.Audit, r.parts = m.ID, m.At, m.Note, false, b.audit, nil
	return Event{Kind: Base, Region: r}
}

// base returns the base that has begun at a digest; nil: there is none.
func (r *LedgerRegion) base(id ID) *building {
	if i := slices.IndexFunc(r.begun, func(b *building) bool { return b.ID == id }); i >= 0 {
		return r.begun[i]
	}
	return nil
}

// begin begins a base with its first piece, or begins it again. If there are too many, it drops the one that has waited
// longest for a piece, but never the one with most pieces: one base makes progress however many links break in turn.
func (r *LedgerRegion) begin(at mark) *building {
	r.dropBegun(func(b *building) bool { return b.ID == at.ID })
	if len(r.begun) == mostBegun {
		gone := r.begun[0]
		if slices.IndexFunc(r.begun[1:], func(b *building) bool { return len(b.pieces) > len(gone.pieces) }) < 0 {
			gone = r.begun[1]
		}
		r.dropBegun(func(b *building) bool { return b == gone })
	}
	at.bytes = 0
	return &building{mark: at}
}

func (r *LedgerRegion) dropBegun(is func(*building) bool) { r.begun = slices.DeleteFunc(r.begun, is) }

func (b *building) goesOn(m Message) bool {
	return uint64(len(b.pieces)) == m.Number && b.hash() == m.Piece.Before
}

func (b *building) hash() uint64 {
	if n := len(b.pieces); n > 0 {
		return b.pieces[n-1]
	}
	return 0
}

// Verdict is what to do with a message that comes over a link.
type Verdict int

// The verdicts.
const (
	Known Verdict = iota // it is here
	Next                 // it is what comes next: to be appended to the log
	Gap                  // something before it is missing
)

// Wants reports whether a message of another region belongs into the log now. The caller keeps the parts of a digest
// together.
func (l *Ledger) Wants(m Message) Verdict {
	r := l.regions[m.Region]
	if r == nil {
		r = &LedgerRegion{}
	}
	switch {
	case !r.ID.Before(m.ID):
		return Known
	case m.Piece != nil, m.Gone && m.Epoch > r.Epoch, !r.Gone && m.Epoch == r.Epoch && m.Seq == r.Seq+1:
		return Next
	}
	return Gap
}

// WantsPiece reports whether a piece of a base that is ahead belongs into the log now. It is Known if the log has the same
// piece, Next if it is the first piece of a new base or follows the newest one, and else Gap.
func (l *Ledger) WantsPiece(m Message) Verdict {
	b := &building{}
	if r := l.regions[m.Region]; r != nil {
		b = cmp.Or(r.base(m.ID), b)
	}
	switch {
	case m.Number < uint64(len(b.pieces)) && b.pieces[m.Number] == NextHash(m.Piece.Before, m.Encode()):
		return Known
	case m.Number == 0 || b.goesOn(m):
		return Next
	}
	return Gap
}

// Begun returns the bases of each region that are ahead of what is here and not whole.
func (l *Ledger) Begun() map[string][]Begun {
	all := map[string][]Begun{}
	for name, r := range l.regions {
		for _, b := range r.begun {
			if r.ID.Before(b.ID) {
				all[name] = append(all[name], Begun{ID: b.ID, Pieces: uint64(len(b.pieces)), Hash: b.hash()})
			}
		}
	}
	return all
}

// Base returns the messages with the first and the last piece of a whole base. Other messages may be between them.
func (l *Ledger) Base(name string, id ID) (first, last uint64, ok bool) {
	r := l.regions[name]
	if r == nil {
		return 0, 0, false
	}
	for _, b := range slices.Backward(r.bases) {
		if b.ID == id {
			return b.began, b.last, true
		}
	}
	return 0, 0, false
}

// From returns the message of the log with which a reader begins that has all of a region up to an ID. It is Next if the log
// has nothing newer.
func (l *Ledger) From(name string, have ID) uint64 {
	r := l.regions[name]
	if r == nil || !have.Before(r.ID) {
		return l.next
	}
	if at, found := slices.BinarySearchFunc(r.list, ID{Epoch: have.Epoch, Seq: have.Seq + 1}, compare); found {
		return r.list[at].began
	}
	if n := len(r.bases); n > 0 && !r.Gone {
		return r.bases[n-1].began
	}
	if n := len(r.list); n > 0 {
		return r.list[n-1].began
	}
	return l.next
}

func compare(m mark, id ID) int {
	return cmp.Or(cmp.Compare(m.Epoch, id.Epoch), cmp.Compare(m.Seq, id.Seq))
}

// DueBase reports whether a region needs a new base, so that the log can be trimmed: its digests since the last base have
// more than so many bytes, and more than that base.
func (l *Ledger) DueBase(name string, bytes int64) bool {
	r := l.regions[name]
	if r == nil || r.Gone || r.Epoch == 0 || len(r.bases) == 0 {
		return false
	}
	return r.bytes > max(bytes, r.bases[len(r.bases)-1].bytes)
}

// Trimmable returns the message up to which the log may be trimmed. For each region it keeps two bases and all after the
// older one.
func (l *Ledger) Trimmable() uint64 {
	oldest := l.next
	for _, r := range l.regions {
		switch {
		case r.Gone:
			oldest = min(oldest, r.list[0].began)
		case len(r.bases) > 0:
			oldest = min(oldest, r.bases[0].began)
		}
		for _, b := range r.begun {
			oldest = min(oldest, b.began)
		}
	}
	return oldest - 1
}

// Trimmed records that the log begins after a message.
func (l *Ledger) Trimmed(upTo uint64) {
	for _, r := range l.regions {
		r.list = slices.DeleteFunc(r.list, func(m mark) bool { return m.began <= upTo })
		r.bases = slices.DeleteFunc(r.bases, func(b whole) bool { return b.began <= upTo })
	}
}

// Building reports whether a base of a region has begun and is not whole.
func (r *LedgerRegion) Building() bool { return len(r.begun) > 0 }

// Bases returns how many whole bases of a region the log has: at most 2.
func (r *LedgerRegion) Bases() int { return len(r.bases) }
