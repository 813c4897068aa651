package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir"
)

// auditor follows the messages of a stream and finds gaps, repeats and wrong
// totals. What must go on without a hole are the sequences of the stream, and of
// each origin what its lane says. It hands out the flushes that are complete.
type auditor struct {
	origin     uint64 // of this directory
	alone      bool   // no other origin belongs here
	self       life   // of this process: its hits were counted when they came
	partitions int
	stream     uint64    // sequence of the last message
	now        time.Time // when it came, or the last cut was made
	lanes      map[uint64]*lane

	findings                     []Finding
	flushes, repeats, unfinished uint64
}

func newAuditor(origin uint64, partitions int) *auditor {
	return &auditor{origin: origin, alone: true, partitions: partitions, lanes: map[uint64]*lane{}}
}

func (a *auditor) find(where, what, cost string) {
	a.findings = append(a.findings, Finding{Where: where, What: what, Cost: cost})
}

// lane returns an origin's lane, which may be new.
func (a *auditor) lane(origin uint64) *lane {
	l := a.lanes[origin]
	if l == nil {
		l = &lane{auditor: a, origin: origin, known: true, positions: make([]position, a.partitions)}
		a.lanes[origin] = l
	}
	return l
}

// message takes the next message and returns the parts of the flush that it
// makes complete, if it does.
func (a *auditor) message(sequence uint64, data []byte) []part {
	if sequence != a.stream+1 {
		a.find(fmt.Sprintf("journal messages %d to %d", a.stream+1, sequence-1), "missing", "the hits of their flushes")
		a.lose()
	}
	p, err := decodePart(data)
	if err != nil {
		a.stream = sequence
		a.find(fmt.Sprintf("journal message %d", sequence), err.Error(), "the hits of its flush")
		a.lose()
		return nil
	}
	return a.next(sequence, p)
}

// next takes the next message, decoded.
func (a *auditor) next(sequence uint64, p part) []part {
	a.stream = sequence
	where := fmt.Sprintf("journal message %d", sequence)
	if a.alone && p.origin != a.origin && !p.restored {
		a.find(where, fmt.Sprintf("from origin %x in place of %x", p.origin, a.origin), "it was left out")
		return nil
	}
	return a.lane(p.origin).part(where, p)
}

// lose forgets where the origins stand, after messages that are gone: they may
// have been anybody's.
func (a *auditor) lose() {
	for _, l := range a.lanes {
		l.lose()
	}
}

// skip goes on after messages that are gone and may be had from their origins:
// the next flush of each tells whether one of its own was among them.
func (a *auditor) skip(sequence uint64) { a.stream = sequence - 1 }

// batch tells whether a batch is new to its partition, and audits its seq and
// total, which go on from one epoch to the next. A batch without entries repeats
// the last ones, for those who miss them.
func (a *auditor) batch(l life, b batch) bool {
	if b.partition >= a.partitions {
		a.find(fmt.Sprintf("epoch %d", l.epoch), fmt.Sprintf("a batch of partition %d of %d", b.partition, a.partitions), "the hits of that batch")
		return false
	}
	lane := a.lane(l.origin)
	at := &lane.positions[b.partition]
	told := position{epoch: l.epoch, seq: b.seq, total: b.total, lost: at.lost}
	before := told // where the partition must stand
	fresh := len(b.entries) > 0
	if fresh {
		before.seq, before.total = b.seq-1, b.total-b.n
	}
	switch {
	case l.epoch < at.epoch || l.epoch == at.epoch && b.seq <= at.seq && (fresh || b.seq < at.seq):
		if fresh {
			a.repeats++
		}
		return false // a snapshot has it
	case before.seq > at.seq:
		lane.missing.add(b.partition, before.seq-at.seq, before.total-at.total)
		told.lost += before.total - at.total
	case before.seq < at.seq:
		a.find(lane.named(fmt.Sprintf("partition %d", b.partition)), fmt.Sprintf("its origin goes on after batch %d in epoch %d, and batch %d is here", before.seq, l.epoch, at.seq),
			"the count of that partition, at its origin")
	case before.total != at.total:
		a.find(lane.named(fmt.Sprintf("partition %d", b.partition)), fmt.Sprintf("batch %d of epoch %d: running total %d, want %d", b.seq, l.epoch, b.total, b.total-before.total+at.total),
			"the count of that partition")
	}
	*at = told
	return fresh
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

// reportMissing names what is missing of each origin.
func (a *auditor) reportMissing() {
	for _, origin := range slices.Sorted(maps.Keys(a.lanes)) {
		l := a.lanes[origin]
		if m := &l.missing; len(m.partitions) > 0 {
			a.find(l.named(m.String()), fmt.Sprintf("%d batches missing", m.batches), fmt.Sprintf("%d hits", m.hits))
			l.missing = missingBatches{}
		}
	}
}

// end audits that the journal reaches as far as the mark or a snapshot says it
// did; last is what the server says.
func (a *auditor) end(reached, last uint64) {
	if a.stream < last {
		a.find(fmt.Sprintf("journal messages %d to %d", a.stream+1, last), "unreadable", "the hits of their flushes")
	}
	if there := max(a.stream, last); there < reached {
		a.find(fmt.Sprintf("journal messages %d to %d", there+1, reached), "cut off", "the hits of their flushes, the newest ones")
	}
	a.reportMissing()
	if a.alone {
		a.dropUnfinished() // in a cluster, the rest may come
	}
}

func (a *auditor) dropUnfinished() {
	for _, l := range a.lanes {
		l.dropUnfinished()
	}
}

// positionsOf is how far each origin's batches of a partition were applied, with
// where its lane was at a start.
func (a *auditor) positionsOf(partition int, heads map[uint64]head) (list []originPosition) {
	for _, origin := range slices.Sorted(maps.Keys(a.lanes)) {
		l := a.lanes[origin]
		list = append(list, originPosition{origin: origin, position: l.positions[partition], head: heads[origin], node: l.node, at: l.at, left: l.left})
	}
	return list
}

// beginning is a message of the journal after which a snapshot begins, and the last
// flushes up to it, by origin: all of them are whole.
type beginning struct {
	from  uint64
	heads map[uint64]head
}

// waitMost is for how many messages the rest of a flush is waited for: a snapshot
// meanwhile begins before it. After that its first parts are to be had from its
// origin only, as after a loss.
const waitMost = 1000

// waitLongest is how long it is waited for while nothing is heard of its origin: one that
// died in the middle of a flush keeps the journal from being trimmed, and where that is
// full no messages come that waitMost could count.
const waitLongest = 10 * time.Second

// startOf is where a snapshot begins that is taken now.
func (a *auditor) startOf() *beginning {
	var first *beginning
	for _, l := range a.lanes {
		if len(l.pending) > 0 && a.stream-l.start.from < waitMost && a.now.Sub(l.heard) < waitLongest && (first == nil || l.start.from < first.from) {
			first = l.start
		}
	}
	if first == nil {
		first = &beginning{a.stream, a.heads()}
	}
	return first
}

// startOfPending is startOf before the last message, which begins a flush of
// several parts. While another is pending, it is the start of that one.
func (a *auditor) startOfPending() *beginning {
	s := a.startOf()
	if s.from == a.stream {
		s.from--
	}
	return s
}

func (a *auditor) heads() map[uint64]head {
	heads := make(map[uint64]head, len(a.lanes))
	for origin, l := range a.lanes {
		if l.known {
			heads[origin] = head{l.epoch, l.flush}
		}
	}
	return heads
}

// resume goes on after snapshots, by partition, nil where there was none. It
// returns the first message that some partition needs; last is the journal's.
func (a *auditor) resume(snaps []*snapshot, last uint64) (start uint64) {
	return a.resumeOf(nil, snaps, last)
}

// resumeOf is resume of some partitions.
func (a *auditor) resumeOf(some weir.PartitionSet, snaps []*snapshot, last uint64) (start uint64) {
	start = last + 1
	var oldest *snapshot
	for partition, snap := range snaps {
		if !some.Has(partition) {
			continue
		}
		if snap == nil {
			start, oldest = 1, nil
			continue
		}
		if snap.from+1 < start || oldest == nil && snap.from+1 == start {
			start, oldest = snap.from+1, snap
		}
		for _, at := range snap.positions {
			a.lane(at.origin).resume(partition, at)
		}
	}
	for _, l := range a.lanes {
		l.known = oldest != nil || start == 1 // what the oldest does not list, has never been
	}
	if oldest != nil {
		for _, at := range oldest.positions {
			l := a.lane(at.origin)
			l.epoch, l.flush, l.known = at.head.epoch, at.head.flush, at.head.epoch != 0
		}
	}
	a.stream = start - 1
	return start
}
