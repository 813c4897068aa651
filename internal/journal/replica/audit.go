package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// Auditor follows the messages of a stream and finds gaps, repeats and wrong
// totals. What must go on without a hole are the sequences of the stream, and of
// each origin what its Progress says. It hands out the flushes that are complete.
type Auditor struct {
	Origin     uint64             // of this directory
	Alone      bool               // no other origin belongs here
	self       record.Incarnation // of this process: its hits were counted when they came
	Partitions int
	HitsOnly   bool                // its sink reads no entries of restored backups: they are not kept
	AtOnce     func(change func()) // runs a change of many partitions (keyspace.Keyspace.AtOnce); nil: nobody reads meanwhile
	Stream     uint64              // sequence of the last message
	began      time.Time           // when this life did
	now        time.Time           // when it came, or the last cut was made
	byOrigin   map[uint64]*Progress

	Findings                     []record.Finding
	flushes, repeats, unfinished uint64

	flush    group // the flushes that are being counted; reused to save allocations
	together int   // bytes of flushes that are counted together; 0: each flush is counted when it is complete
	requests requests
}

// NewAuditor returns one for the journal of one origin, Alone, from its first message on.
func NewAuditor(origin uint64, partitions int) *Auditor {
	return &Auditor{Origin: origin, Alone: true, Partitions: partitions, byOrigin: map[uint64]*Progress{}}
}

func (a *Auditor) find(where, what, cost string) {
	a.Findings = append(a.Findings, record.Finding{Where: where, What: what, Cost: cost})
}

// progressOf returns an origin's, which may be new.
func (a *Auditor) progressOf(origin uint64) *Progress {
	l := a.byOrigin[origin]
	if l == nil {
		l = &Progress{Auditor: a, origin: origin, known: true, positions: make([]record.Position, a.Partitions)}
		a.byOrigin[origin] = l
	}
	return l
}

// message takes the next message and returns the parts of the flush that it
// makes complete, if it does. The error is for a message that another build wrote.
func (a *Auditor) message(sequence uint64, data []byte) ([]record.Part, error) {
	if sequence != a.Stream+1 {
		a.find(fmt.Sprintf("journal messages %d to %d", a.Stream+1, sequence-1), "missing", "the hits of their flushes")
		a.lose()
	}
	p, err := record.DecodePart(data)
	if errors.Is(err, wire.ErrVersion) {
		return nil, fmt.Errorf("journal message %d: %w", sequence, err)
	}
	if err != nil {
		a.Stream = sequence
		a.find(fmt.Sprintf("journal message %d", sequence), err.Error(), "the hits of its flush")
		a.lose()
		return nil, nil
	}
	return a.next(sequence, p), nil
}

func (a *Auditor) next(sequence uint64, p record.Part) []record.Part {
	a.Stream = sequence
	where := fmt.Sprintf("journal message %d", sequence)
	if a.Alone && p.Origin != a.Origin && !p.Restored {
		a.find(where, fmt.Sprintf("from origin %x in place of %x", p.Origin, a.Origin), "it was left out")
		return nil
	}
	return a.progressOf(p.Origin).part(where, p)
}

// lose forgets where the origins stand, after messages that are gone: they may
// have been anybody's.
func (a *Auditor) lose() {
	for _, l := range a.byOrigin {
		l.lose()
	}
}

// skip continues after messages that are gone and that their origins may still have. The next flush of each origin
// shows whether one of its own was among them.
func (a *Auditor) skip(sequence uint64) { a.Stream = sequence - 1 }

// batch reports whether a batch is new to its partition, and audits its seq and
// total, which go on from one epoch to the next. A batch without entries repeats
// the last ones, for those who miss them.
func (a *Auditor) batch(l record.Incarnation, b record.Batch) bool {
	if b.Partition >= a.Partitions {
		a.find(fmt.Sprintf("epoch %d", l.Epoch), fmt.Sprintf("a batch of partition %d of %d", b.Partition, a.Partitions), "the hits of that batch")
		return false
	}
	progress := a.progressOf(l.Origin)
	at := &progress.positions[b.Partition]
	stated := record.Position{Epoch: l.Epoch, Seq: b.Seq, Total: b.Total, Lost: at.Lost}
	before := stated // where the partition must stand
	fresh := len(b.Entries) > 0
	if fresh {
		before.Seq, before.Total = b.Seq-1, b.Total-b.N
	}
	switch {
	case l.Epoch < at.Epoch || l.Epoch == at.Epoch && b.Seq <= at.Seq && (fresh || b.Seq < at.Seq):
		if fresh {
			a.repeats++
		}
		return false // a snapshot has it
	case before.Seq > at.Seq:
		progress.missing.add(b.Partition, before.Seq-at.Seq, lacking(before, *at))
	case before.Seq < at.Seq:
		a.find(progress.named(fmt.Sprintf("partition %d", b.Partition)), fmt.Sprintf("its origin goes on after batch %d in epoch %d, and batch %d is here", before.Seq, l.Epoch, at.Seq),
			"the count of that partition, at its origin")
	case before.Total != at.Total:
		a.find(progress.named(fmt.Sprintf("partition %d", b.Partition)), fmt.Sprintf("batch %d of epoch %d: running total %d, want %d", b.Seq, l.Epoch, b.Total, b.Total-before.Total+at.Total),
			"the count of that partition")
	}
	begunBehind := progress.torn && at.Seq > 0 && l.Epoch > at.Epoch && !a.Alone // perhaps, and lost as many batches as it lacked
	if before.Seq != at.Seq || before.Total != at.Total || begunBehind {
		stated.Lost += lacking(before, *at)
	}
	*at = stated
	return fresh
}

// lacking returns at least how many hits of an origin's partition are lost when a batch does not follow the position
// that was reached. An origin that had itself lost hits when its epoch began may hide the difference. The true loss is
// then unknown, and lacking returns 1.
func lacking(before, reached record.Position) uint64 {
	if before.Total > reached.Total {
		return before.Total - reached.Total
	}
	return 1
}

// missingBatches are the holes in the batches of an origin's partitions.
type missingBatches struct {
	partitions map[int]bool
	batches    uint64
	hits       uint64
}

func (m *missingBatches) add(partition int, batches, hits uint64) {
	if m.partitions == nil {
		m.partitions = map[int]bool{}
	}
	m.partitions[partition] = true
	m.batches += batches
	m.hits += hits
}

// String names the partitions: all, or where they are many the first of them.
func (m *missingBatches) String() string {
	numbers := slices.Sorted(maps.Keys(m.partitions))
	where := "partition " + strings.Trim(fmt.Sprint(numbers[:min(8, len(numbers))]), "[]")
	if more := len(numbers) - 8; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	return where
}

func (a *Auditor) reportMissing() {
	for _, origin := range slices.Sorted(maps.Keys(a.byOrigin)) {
		l := a.byOrigin[origin]
		if m := &l.missing; len(m.partitions) > 0 {
			a.find(l.named(m.String()), fmt.Sprintf("%d batches missing", m.batches), fmt.Sprintf("%d hits", m.hits))
			l.missing = missingBatches{}
		}
	}
}

// End audits that the journal reaches as far as the mark or a snapshot says it
// did; last is what the server says.
func (a *Auditor) End(reached, last uint64) {
	if a.Stream < last {
		a.find(fmt.Sprintf("journal messages %d to %d", a.Stream+1, last), "unreadable", "the hits of their flushes")
	}
	if there := max(a.Stream, last); there < reached {
		a.find(fmt.Sprintf("journal messages %d to %d", there+1, reached), "cut off", "the hits of their flushes, the newest ones")
	}
	a.reportMissing()
	if a.Alone {
		a.dropUnfinished() // in a cluster, the rest may come
	}
}

func (a *Auditor) dropUnfinished() {
	for _, l := range a.byOrigin {
		if !l.undecided() {
			l.dropUnfinished()
		}
	}
}

// positionsOf is how far each origin's batches of a partition were applied, with
// where the origin was at a start.
func (a *Auditor) positionsOf(partition int, heads map[uint64]record.Head) (list []record.OriginPosition) {
	for _, origin := range slices.Sorted(maps.Keys(a.byOrigin)) {
		l := a.byOrigin[origin]
		list = append(list, record.OriginPosition{Origin: origin, Position: l.positions[partition], Head: heads[origin], Node: l.node, At: l.at, Left: l.left})
	}
	return list
}

// beginning is a message of the journal after which a snapshot begins, and the last flushes up to it, by origin. All
// of these flushes are whole.
type beginning struct {
	from  uint64
	heads map[uint64]record.Head
}

// waitMost is for how many messages the rest of a flush is waited for: a snapshot
// meanwhile begins before it. After that its first parts are to be had from its
// origin only, as after a loss. A backup that replaces all hits is waited for until a record
// says that it was undone.
const waitMost = 1000

// A flush with missing parts is waited for no longer than this after the last message of its origin in this life. An
// origin that died in the middle of a flush keeps the journal from being trimmed. If the journal is full, no messages
// come that waitMost could count.
const waitLongest = 10 * time.Second

// startOf is where a snapshot begins that is taken now.
func (a *Auditor) startOf() *beginning {
	var first *beginning
	for _, l := range a.byOrigin {
		waits := l.undecided() || len(l.pending) > 0 && a.Stream-l.start.from < waitMost && a.now.Sub(Later(l.heard, a.began)) < waitLongest
		if waits && (first == nil || l.start.from < first.from) {
			first = l.start
		}
	}
	if first == nil {
		first = &beginning{a.Stream, a.heads()}
	}
	return first
}

// startOfPending is startOf before the last message, which begins a flush of
// several parts. While another flush is pending, it is the start of that flush.
func (a *Auditor) startOfPending() *beginning {
	s := a.startOf()
	if s.from == a.Stream {
		s.from--
	}
	return s
}

func (a *Auditor) heads() map[uint64]record.Head {
	heads := make(map[uint64]record.Head, len(a.byOrigin))
	for origin, l := range a.byOrigin {
		if l.known {
			heads[origin] = record.Head{Epoch: l.epoch, Flush: l.flush}
		}
	}
	return heads
}

// NoteRequests notes the requests of a snapshot: ResumeOf does so for the snapshots that it is given.
func (a *Auditor) NoteRequests(snap record.Snapshot) { a.requests.resume(snap.Requests) }

// ResumeOf goes on after the snapshots of some partitions, by partition, nil where there was none. It
// returns the first message that some partition needs; last is the journal's.
func (a *Auditor) ResumeOf(some replication.PartitionSet, snaps []*record.Snapshot, last uint64) (start uint64) {
	start = last + 1
	var oldest *record.Snapshot
	for partition, snap := range snaps {
		if !some.Has(partition) {
			continue
		}
		if snap == nil {
			start, oldest = 1, nil
			continue
		}
		if snap.From+1 < start || oldest == nil && snap.From+1 == start {
			start, oldest = snap.From+1, snap
		}
		for _, at := range snap.Positions {
			a.progressOf(at.Origin).resume(partition, at)
		}
		a.NoteRequests(*snap)
	}
	for _, l := range a.byOrigin {
		l.known = oldest != nil || start == 1 // what the oldest does not list, has never been
	}
	if oldest != nil {
		for _, at := range oldest.Positions {
			l := a.progressOf(at.Origin)
			l.epoch, l.flush, l.known = at.Head.Epoch, at.Head.Flush, at.Head.Epoch != 0
		}
	}
	a.Stream = start - 1
	return start
}
