package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// auditor follows the messages of a stream and finds gaps, repeats and wrong
// totals: (origin, epoch, flush, part) and each partition's (seq, total) must go
// on without a hole. It hands out the flushes that are complete.
type auditor struct {
	origin    uint64
	stream    uint64 // sequence of the last message
	epoch     uint64 // of the last flush; 0: none yet
	flush     uint64 // the last one of the epoch
	known     bool   // the next flush must be flush+1; not so at the start and after a gap
	broken    uint64 // a flush of the epoch that lost a part: the others are passed over
	pending   []part // of a flush whose last part has not come
	positions []position
	epochs    []uint64 // by partition, as positions: the epoch that its position is in

	missing missingBatches

	findings                     []Finding
	flushes, repeats, unfinished uint64
}

func newAuditor(origin uint64, partitions int) *auditor {
	return &auditor{origin: origin, positions: make([]position, partitions), epochs: make([]uint64, partitions)}
}

func (a *auditor) find(where, what, cost string) {
	a.findings = append(a.findings, Finding{Where: where, What: what, Cost: cost})
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
	case p.origin != a.origin:
		a.find(where, fmt.Sprintf("from origin %x in place of %x", p.origin, a.origin), "it was left out")
		return nil
	case p.epoch < a.epoch || p.epoch == a.epoch && a.known && p.flush <= a.flush:
		a.repeats++
		return nil
	}
	if p.epoch > a.epoch {
		a.dropUnfinished() // its process ended before it was acknowledged
		a.known = a.epoch != 0
		a.epoch, a.flush, a.broken = p.epoch, 0, 0
	}
	return a.next(where, p)
}

// lose forgets where the stream stands, after messages that are gone.
func (a *auditor) lose() {
	if len(a.pending) > 0 {
		a.broken = a.pending[0].flush
	}
	a.known, a.pending = false, nil
}

// next takes a part of the current epoch that is not of a finished flush.
func (a *auditor) next(where string, p part) []part {
	if len(a.pending) > 0 {
		switch open := a.pending[0].flush; {
		case p.flush == open && p.part < uint64(len(a.pending)):
			a.repeats++
			return nil
		case p.flush != open || p.part > uint64(len(a.pending)):
			a.find(where, fmt.Sprintf("flush %d of epoch %d is not whole", open, p.epoch), "the hits of that flush")
			a.broken, a.flush, a.known, a.pending = open, open, true, nil
		}
	}
	if len(a.pending) == 0 {
		if a.broken != 0 && p.flush == a.broken {
			return nil
		}
		if a.known && p.flush != a.flush+1 {
			a.find(where, fmt.Sprintf("flush %d of epoch %d follows flush %d", p.flush, p.epoch, a.flush), "the hits of the flushes between")
		}
		a.flush, a.known = p.flush-1, true
		if p.part != 0 {
			a.find(where, fmt.Sprintf("flush %d of epoch %d begins with part %d", p.flush, p.epoch, p.part), "the hits of that flush")
			a.broken, a.flush = p.flush, p.flush
			return nil
		}
	}
	if a.pending = append(a.pending, p); !p.last {
		return nil
	}
	whole := a.pending
	a.pending, a.flush = nil, p.flush
	a.flushes++
	return whole
}

// batch tells whether a batch is new to its partition, and audits its seq and
// total.
func (a *auditor) batch(l life, b batch) bool {
	if b.partition >= len(a.positions) {
		a.find(fmt.Sprintf("epoch %d", l.epoch), fmt.Sprintf("a batch of partition %d of %d", b.partition, len(a.positions)), "the hits of that batch")
		return false
	}
	at := &a.positions[b.partition]
	switch was := a.epochs[b.partition]; {
	case l.epoch < was || l.epoch == was && b.seq <= at.seq:
		a.repeats++
		return false // a snapshot has it
	case l.epoch > was:
		a.epochs[b.partition], *at = l.epoch, position{}
	}
	if b.seq != at.seq+1 {
		a.missing.add(b.partition, b.seq-at.seq-1, b.total-at.total-sum(b))
	} else if b.total != at.total+sum(b) {
		a.find(fmt.Sprintf("partition %d", b.partition), fmt.Sprintf("batch %d of epoch %d: running total %d, want %d", b.seq, l.epoch, b.total, at.total+sum(b)),
			"the count of that partition")
	}
	*at = position{b.seq, b.total}
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
	if len(a.pending) > 0 {
		a.unfinished++
		a.pending = nil
	}
}
