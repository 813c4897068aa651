package journal

import (
	"fmt"
	"time"
)

// lane is one origin's way through the journal: its flushes and their parts must
// go on without a hole within an epoch, and so must each partition's batches.
type lane struct {
	*auditor
	origin    uint64
	epoch     uint64 // of the last flush; 0: none yet
	flush     uint64 // the last one of the epoch
	sequence  uint64 // of the message that made it whole
	known     bool   // the next flush is flush+1 or the first of an epoch; not so where it was not told, and after a gap
	broken    uint64 // a flush of the epoch that lost a part: the others are passed over
	pending   []part // of a flush whose last part has not come
	opened    uint64 // the message with the first of these
	positions []position
	missing   missingBatches

	node  string
	at    int64     // Unix ms: all hits that the origin took until then are in its flushes so far
	heard time.Time // when the last flush came; of those read at Open, when it was made
	left  bool      // it takes no more hits
}

// gap is the flush that should have come before the part, or with it, if one did
// not come whole.
func (l *lane) gap(p part) (first uint64, ok bool) {
	switch {
	case p.epoch < l.epoch, l.epoch == 0 && !l.known, p.epoch == l.epoch && !l.known: // nothing is known
		return 0, false
	case p.epoch > l.epoch:
		return 1, p.flush > 1 || p.part > 0
	}
	next := l.flush + 1
	return next, p.flush > next || p.flush == next && p.part > uint64(len(l.pending))
}

// part takes the origin's next part and returns the parts of the flush that it
// makes complete, if it does.
func (l *lane) part(where string, p part) []part {
	if p.epoch < l.epoch || p.epoch == l.epoch && l.known && p.flush <= l.flush {
		l.repeats++
		return nil
	}
	if p.epoch > l.epoch {
		l.dropUnfinished() // its process ended before it was acknowledged
		l.known = l.known || l.epoch != 0
		l.epoch, l.flush, l.broken = p.epoch, 0, 0
	}
	return l.next(where, p)
}

// lose forgets where the origin stands.
func (l *lane) lose() {
	if len(l.pending) > 0 {
		l.broken = l.pending[0].flush
	}
	l.known, l.pending = false, nil
}

// next takes a part of the current epoch that is not of a finished flush.
func (l *lane) next(where string, p part) []part {
	if len(l.pending) > 0 {
		switch open := l.pending[0].flush; {
		case p.flush == open && p.part < uint64(len(l.pending)):
			l.repeats++
			return nil
		case p.flush != open || p.part > uint64(len(l.pending)):
			l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d is not whole", open, p.epoch), "the hits of that flush")
			l.broken, l.flush, l.known, l.pending = open, open, true, nil
		}
	}
	if len(l.pending) == 0 {
		if l.broken != 0 && p.flush == l.broken {
			return nil
		}
		if l.known && p.flush != l.flush+1 {
			l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d follows flush %d", p.flush, p.epoch, l.flush), "the hits of the flushes between")
		}
		l.flush, l.known = p.flush-1, true
		if p.part != 0 {
			l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d begins with part %d", p.flush, p.epoch, p.part), "the hits of that flush")
			l.broken, l.flush = p.flush, p.flush
			return nil
		}
	}
	if len(l.pending) == 0 {
		l.opened = l.stream
	}
	if l.pending = append(l.pending, p); !p.last {
		return nil
	}
	l.node, l.at, l.left, l.heard = p.node, p.at, p.leaving, time.UnixMilli(p.at)
	whole := l.pending
	l.pending, l.flush, l.sequence = nil, p.flush, l.stream
	l.flushes++
	return whole
}

func (l *lane) dropUnfinished() {
	if len(l.pending) > 0 {
		l.unfinished++
		l.pending = nil
	}
}

// named says of whom something was found, where there are many.
func (l *lane) named(where string) string {
	if l.alone {
		return where
	}
	return fmt.Sprintf("origin %016x (%s), %s", l.origin, l.node, where)
}

// resume goes on with a partition after its snapshot.
func (l *lane) resume(partition int, at originPosition) {
	l.positions[partition] = at.position
	if at.at >= l.at {
		l.node, l.at, l.left, l.heard = at.node, at.at, at.left, time.UnixMilli(at.at)
	}
	if at.lost > 0 {
		l.findings = append(l.findings, Finding{
			Where: l.named(fmt.Sprintf("partition %d", partition)), What: "its snapshot was taken after batches were lost",
			Cost: fmt.Sprintf("%d hits, then", at.lost), Harmless: true,
		})
	}
}
