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
	epoch     uint64     // of the last flush; 0: none yet
	flush     uint64     // the last one of the epoch
	known     bool       // the next flush is flush+1 or the first of an epoch; not so where it was not told, and after a gap
	broken    uint64     // a flush of the epoch that lost a part: the others are passed over
	pending   []part     // of a flush whose last part has not come
	start     *beginning // where a snapshot begins that has none of these
	positions []position
	missing   missingBatches

	node  string
	at    int64     // Unix ms: all hits that the origin took until then are in its flushes so far
	heard time.Time // when the last flush came; of those read at Open, when it was made
	fresh time.Time // heard of the first flush since Open, or since it left: flushes alone do not say how old what is in the next ones is
	left  bool      // it takes no more hits
}

// gap is the flush and the part that should have come before a part, if one did
// not.
func (l *lane) gap(p part) (flush, number uint64, ok bool) {
	switch {
	case !l.known || p.epoch < l.epoch:
		return 0, 0, false
	case p.epoch > l.epoch:
		return 1, 0, p.flush > 1 || p.part > 0
	}
	next, have := l.flush+1, uint64(len(l.pending))
	return next, have, p.flush > next || p.flush == next && p.part > have
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
		l.known = l.known || p.flush == 1 && p.part == 0
		l.epoch, l.flush, l.broken = p.epoch, 0, 0
	}
	if !l.known {
		return l.unsure(where, p)
	}
	return l.next(where, p)
}

// unsure takes a part where it is not known which flush is the next: it may come
// again from long before. Flushes are handed out, and the first that has something
// new tells where the lane is.
func (l *lane) unsure(where string, p part) []part {
	if len(l.pending) > 0 && (p.flush > l.pending[0].flush || p.flush == l.pending[0].flush && p.part > uint64(len(l.pending))) {
		if !l.has(l.pending) {
			l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d is not whole", l.pending[0].flush, p.epoch), "the hits of that flush")
		}
		l.pending = nil
	}
	switch {
	case len(l.pending) > 0 && (p.flush < l.pending[0].flush || p.part < uint64(len(l.pending))):
		l.repeats++
		return nil
	case len(l.pending) > 0: // the next part
	case l.broken != 0 && p.flush == l.broken:
		return nil
	case p.part > 0 && l.has([]part{p}): // of a flush that was whole when the snapshots were taken
		l.repeats++
		return nil
	case p.part > 0:
		l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d begins with part %d", p.flush, p.epoch, p.part), "the hits of that flush")
		l.broken, l.flush, l.known = p.flush, p.flush, true
		return nil
	default:
		l.start = l.startOfPending()
	}
	if l.pending = append(l.pending, p); !p.last {
		return nil
	}
	if !l.has(l.pending) {
		l.flush, l.known = p.flush, true
	}
	return l.whole()
}

// has tells whether all batches of some parts were applied before.
func (l *lane) has(parts []part) bool {
	for _, p := range parts {
		for _, b := range p.batches {
			if b.partition >= l.partitions {
				return false
			}
			if at := l.positions[b.partition]; p.epoch > at.epoch || p.epoch == at.epoch && b.seq > at.seq {
				return false
			}
		}
	}
	return true
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
			if !l.has([]part{p}) { // else it was whole when the snapshots were taken, which waited for it no longer
				l.find(l.named(where), fmt.Sprintf("flush %d of epoch %d begins with part %d", p.flush, p.epoch, p.part), "the hits of that flush")
			}
			l.broken, l.flush = p.flush, p.flush
			return nil
		}
	}
	if len(l.pending) == 0 && !p.last {
		l.start = l.startOfPending()
	}
	if l.pending = append(l.pending, p); !p.last {
		return nil
	}
	l.flush = p.flush
	return l.whole()
}

// whole hands out the pending parts, which are a flush.
func (l *lane) whole() []part {
	parts := l.pending
	p := parts[len(parts)-1]
	if l.left { // it took nothing since
		l.fresh = time.Time{}
	}
	l.node, l.at, l.left, l.heard = p.node, p.at, p.leaving, time.UnixMilli(p.at)
	l.pending = nil
	l.flushes++
	return parts
}

// arrived notes when the last flush came, by a clock that is not set, and by the time of
// day: what its origin took is known until then at the latest, whatever its clock says.
func (l *lane) arrived(now, today time.Time) {
	l.heard, l.at = now, min(l.at, today.UnixMilli())
	if l.fresh.IsZero() {
		l.fresh = now
	}
}

// notAhead takes back what origins of the past say to be ahead of the clock: one of them
// would never be late, nor forgotten, nor replaced.
func (l *lane) notAhead(now, today time.Time) {
	l.at = min(l.at, today.UnixMilli())
	if l.heard.After(now) {
		l.heard = now
	}
	l.fresh = l.heard
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
	l.lostBefore(partition, at.lost)
}

// lostBefore says that a snapshot lacks hits.
func (l *lane) lostBefore(partition int, hits uint64) {
	if hits > 0 {
		l.findings = append(l.findings, Finding{
			Where: l.named(fmt.Sprintf("partition %d", partition)), What: "its snapshot was taken after batches were lost",
			Cost: fmt.Sprintf("%d hits, then", hits), Harmless: true,
		})
	}
}
