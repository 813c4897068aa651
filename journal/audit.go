package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// auditor follows the messages of a stream and finds gaps, repeats and wrong
// totals. What must go on without a hole are the sequences of the stream, and of
// each origin what its lane says. It hands out the flushes that are complete.
type auditor struct {
	origin     uint64 // of this directory
	alone      bool   // no other origin belongs here
	self       life   // of this process: its hits were counted when they came
	partitions int
	stream     uint64 // sequence of the last message
	lanes      map[uint64]*lane

	missing missingBatches

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
		l = &lane{auditor: a, origin: origin, positions: make([]position, a.partitions)}
		a.lanes[origin] = l
	}
	return l
}

// message takes the next message and returns the parts of the flush that it
// makes complete, if it does.
func (a *auditor) message(sequence uint64, data []byte) []part {
	where := fmt.Sprintf("journal message %d", sequence)
	if sequence != a.stream+1 {
		a.find(fmt.Sprintf("journal messages %d to %d", a.stream+1, sequence-1), "missing", "the hits of their flushes")
		a.lose()
	}
	a.stream = sequence
	p, err := decodePart(data)
	switch {
	case err != nil:
		a.find(where, err.Error(), "the hits of its flush")
		a.lose()
		return nil
	case a.alone && p.origin != a.origin:
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
// total.
func (a *auditor) batch(l life, b batch) bool {
	if b.partition >= a.partitions {
		a.find(fmt.Sprintf("epoch %d", l.epoch), fmt.Sprintf("a batch of partition %d of %d", b.partition, a.partitions), "the hits of that batch")
		return false
	}
	at := &a.lane(l.origin).positions[b.partition]
	switch {
	case l.epoch < at.epoch || l.epoch == at.epoch && b.seq <= at.seq:
		a.repeats++
		return false // a snapshot has it
	case l.epoch > at.epoch:
		*at = position{epoch: l.epoch}
	}
	if b.seq != at.seq+1 {
		a.missing.add(b.partition, b.seq-at.seq-1, b.total-at.total-sum(b))
	} else if b.total != at.total+sum(b) {
		a.find(fmt.Sprintf("partition %d", b.partition), fmt.Sprintf("batch %d of epoch %d: running total %d, want %d", b.seq, l.epoch, b.total, at.total+sum(b)),
			"the count of that partition")
	}
	*at = position{l.epoch, b.seq, b.total}
	return true
}

// missingBatches are the holes in the batches of partitions.
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

// reportMissing names the partitions: all, or where they are many the first of them.
func (a *auditor) reportMissing() {
	m := a.missing
	if len(m.partitions) == 0 {
		return
	}
	numbers := slices.Sorted(maps.Keys(m.partitions))
	where := "partition " + strings.Trim(fmt.Sprint(numbers[:min(8, len(numbers))]), "[]")
	if more := len(numbers) - 8; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	a.find(where, fmt.Sprintf("%d batches missing", m.batches), fmt.Sprintf("%d hits", m.hits))
	a.missing = missingBatches{}
}

func sum(b batch) (n uint64) {
	for _, d := range b.deltas {
		n += d.N
	}
	for _, a := range b.admissions {
		n += a.N
	}
	return n
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
	a.dropUnfinished()
}

func (a *auditor) dropUnfinished() {
	for _, l := range a.lanes {
		l.dropUnfinished()
	}
}

// positionsOf is how far each origin's batches of a partition were applied.
func (a *auditor) positionsOf(partition int) (list []originPosition) {
	for _, origin := range slices.Sorted(maps.Keys(a.lanes)) {
		if at := a.lanes[origin].positions[partition]; at.epoch > 0 {
			list = append(list, originPosition{origin, at})
		}
	}
	return list
}

// resume says how far a snapshot has applied a partition's batches.
func (a *auditor) resume(partition int, list []originPosition) {
	for _, at := range list {
		a.lane(at.origin).positions[partition] = at.position
	}
}
