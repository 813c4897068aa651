package replica

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Progress is how far one origin is followed in the journal. Within an epoch its flushes, their parts and each
// partition's batches must have no hole.
type Progress struct {
	*Auditor
	origin    uint64
	epoch     uint64        // of the last flush; 0: none yet
	flush     uint64        // the last one of the epoch
	known     bool          // the next flush is flush+1 or the first of an epoch; false if the position is unknown, and after a gap
	broken    uint64        // a flush of the epoch that lost a part: the others are passed over
	torn      bool          // a flush of the epoch is lost, perhaps the first one, which says where the partitions stood when it began
	taken     uint64        // one that was taken to be in the snapshots, by the first part that came
	pending   []record.Part // of a flush whose last part has not come
	start     *beginning    // where a snapshot without these parts begins
	positions []record.Position
	missing   missingBatches

	node  string
	at    int64     // Unix ms: all hits that the origin took until then are in its flushes so far
	heard time.Time // when the last flush came; of those read at Open, when it was made
	fresh time.Time // when the first flush since Open, or since it left, came: flushes alone do not say how old the hits in the next ones are
	left  bool      // it takes no more hits
}

// gap is the flush and the part that should have come before a part, if one did
// not.
func (l *Progress) gap(p record.Part) (flush, number uint64, ok bool) {
	switch {
	case !l.known || p.Epoch < l.epoch:
		return 0, 0, false
	case p.Epoch > l.epoch:
		return 1, 0, p.Flush > 1 || p.Number > 0
	}
	next, have := l.flush+1, uint64(len(l.pending))
	return next, have, p.Flush > next || p.Flush == next && p.Number > have
}

// part takes the origin's next part and returns the parts of the flush that it
// makes complete, if it does.
func (l *Progress) part(where string, p record.Part) []record.Part {
	if p.Epoch < l.epoch || p.Epoch == l.epoch && l.known && p.Flush <= l.flush {
		l.repeats++
		if p.Epoch == l.epoch && p.Flush == l.taken && !l.has([]record.Part{p}) {
			l.taken = 0
			l.lacks(where, fmt.Sprintf("flush %d of epoch %d is not in all snapshots", p.Flush, p.Epoch), "the hits of that flush in some partitions")
		}
		return nil
	}
	if p.Epoch > l.epoch {
		l.dropUnfinished() // its process ended before it was acknowledged
		l.known = l.known || p.Flush == 1 && p.Number == 0
		l.epoch, l.flush, l.broken, l.taken, l.torn = p.Epoch, 0, 0, 0, !l.known
	}
	if l.heard.IsZero() { // else the wait for the rest would seem to have begun long ago
		l.node, l.heard = p.Node, time.UnixMilli(p.At)
	}
	if !l.known {
		return l.unsure(where, p)
	}
	return l.next(where, p)
}

// unsure takes a part where it is not known which flush is the next: it may come
// again from long before. Flushes are handed out, and the first that has something
// new tells where the origin is.
func (l *Progress) unsure(where string, p record.Part) []record.Part {
	if len(l.pending) > 0 && (p.Flush > l.pending[0].Flush || p.Flush == l.pending[0].Flush && p.Number > uint64(len(l.pending))) {
		if !l.has(l.pending) {
			l.lacks(where, fmt.Sprintf("flush %d of epoch %d is not whole", l.pending[0].Flush, p.Epoch), "the hits of that flush")
		}
		l.pending = nil
	}
	switch {
	case len(l.pending) > 0 && (p.Flush < l.pending[0].Flush || p.Number < uint64(len(l.pending))):
		l.repeats++
		return nil
	case len(l.pending) > 0: // the next part
	case l.broken != 0 && p.Flush == l.broken:
		return nil
	case p.Number > 0 && l.has([]record.Part{p}): // of a flush that was whole when the snapshots were taken
		l.repeats++
		return nil
	case p.Number > 0 && p.Restored && !p.Last: // of a backup that may never have been complete
		return nil
	case p.Number > 0:
		l.lacks(where, fmt.Sprintf("flush %d of epoch %d begins with part %d", p.Flush, p.Epoch, p.Number), "the hits of that flush")
		l.broken, l.flush, l.known = p.Flush, p.Flush, true
		return nil
	default:
		l.start = l.startOfPending()
	}
	if l.keep(p); !p.Last {
		return nil
	}
	if !l.has(l.pending) {
		l.flush, l.known = p.Flush, true
	}
	return l.whole()
}

// has reports whether all batches of some parts were applied before. Without partitions it is not known.
func (l *Progress) has(parts []record.Part) bool {
	if l.Partitions == 0 {
		return false
	}
	for _, p := range parts {
		for _, b := range p.Batches {
			if b.Partition >= l.Partitions {
				return false
			}
			if at := l.positions[b.Partition]; p.Epoch > at.Epoch || p.Epoch == at.Epoch && b.Seq > at.Seq {
				return false
			}
		}
	}
	return true
}

func (l *Progress) lose() {
	if len(l.pending) > 0 {
		l.broken = l.pending[0].Flush
	}
	l.known, l.pending, l.torn = false, nil, true
}

// next takes a part of the current epoch that is not of a finished flush.
func (l *Progress) next(where string, p record.Part) []record.Part {
	if len(l.pending) > 0 {
		switch open := l.pending[0].Flush; {
		case p.Flush == open && p.Number < uint64(len(l.pending)):
			l.repeats++
			return nil
		case p.Flush != open || p.Number > uint64(len(l.pending)):
			l.lacks(where, fmt.Sprintf("flush %d of epoch %d is not whole", open, p.Epoch), "the hits of that flush")
			l.broken, l.flush, l.known, l.pending = open, open, true, nil
		}
	}
	if len(l.pending) == 0 {
		if l.broken != 0 && p.Flush == l.broken {
			return nil
		}
		if l.known && p.Flush != l.flush+1 {
			l.lacks(where, fmt.Sprintf("flush %d of epoch %d follows flush %d", p.Flush, p.Epoch, l.flush), "the hits of the flushes between")
		}
		l.flush, l.known = p.Flush-1, true
		if p.Number != 0 {
			if l.has([]record.Part{p}) { // it was whole when the snapshots were taken, which waited for it no longer
				l.taken = p.Flush
			} else {
				l.lacks(where, fmt.Sprintf("flush %d of epoch %d begins with part %d", p.Flush, p.Epoch, p.Number), "the hits of that flush")
			}
			l.broken, l.flush = p.Flush, p.Flush
			return nil
		}
	}
	if len(l.pending) == 0 && !p.Last {
		l.start = l.startOfPending()
	}
	if l.keep(p); !p.Last {
		return nil
	}
	l.flush = p.Flush
	return l.whole()
}

func (l *Progress) keep(p record.Part) {
	if l.HitsOnly && p.Restored {
		for i := range p.Batches {
			if b := &p.Batches[i]; b.Kind != record.KindHits && len(b.Entries) > 0 {
				b.Entries = []byte{0} // not empty: it is a batch
			}
		}
	}
	l.pending = append(l.pending, p)
}

// undecided reports whether the origin is a backup that is to replace all hits, and is not
// complete: nothing of it counts.
func (l *Progress) undecided() bool {
	return len(l.pending) > 0 && l.pending[0].Restored && l.flush == 0
}

// whole hands out the pending parts, which are a flush.
func (l *Progress) whole() []record.Part {
	parts := l.pending
	p := parts[len(parts)-1]
	if l.left { // it took nothing since
		l.fresh = time.Time{}
	}
	l.node, l.at, l.left, l.heard = p.Node, p.At, p.Leaving, time.UnixMilli(p.At)
	l.pending = nil
	l.flushes++
	return parts
}

// arrived notes when the last flush came, by the monotonic clock and by the time of day. Whatever the origin's clock
// says, its hits are not said to be complete beyond that time.
func (l *Progress) arrived(now, today time.Time) {
	l.heard, l.at = now, min(l.at, today.UnixMilli())
	if l.fresh.IsZero() {
		l.fresh = now
	}
}

// notAhead reduces times of origins that are ahead of the clock. Otherwise such an origin would never be late,
// forgotten or replaced.
func (l *Progress) notAhead(now, today time.Time) {
	l.at = min(l.at, today.UnixMilli())
	if l.heard.After(now) {
		l.heard = now
	}
	l.fresh = l.heard
}

func (l *Progress) dropUnfinished() {
	if len(l.pending) > 0 {
		l.unfinished++
		l.pending = nil
	}
}

// lacks names a flush of the epoch that is lost, or a part of it.
func (l *Progress) lacks(where, what, cost string) {
	l.torn = true
	l.find(l.named(where), what, cost)
}

// named says of whom something was found, where there are many.
func (l *Progress) named(where string) string {
	if l.Alone {
		return where
	}
	return fmt.Sprintf("origin %016x (%s), %s", l.origin, l.node, where)
}

// resume goes on with a partition after its snapshot.
func (l *Progress) resume(partition int, at record.OriginPosition) {
	l.positions[partition] = at.Position
	if at.At >= l.at {
		l.node, l.at, l.left, l.heard = at.Node, at.At, at.Left, time.UnixMilli(at.At)
	}
	l.lostBefore(partition, at.Lost)
}

// lostBefore says that a snapshot may lack hits.
func (l *Progress) lostBefore(partition int, hits uint64) {
	if hits > 0 {
		l.Findings = append(l.Findings, record.Finding{
			Where: l.named(fmt.Sprintf("partition %d", partition)), What: "its snapshot was taken after batches were lost",
			Cost: fmt.Sprintf("at least %d hits, then", hits), Harmless: true,
		})
	}
}

// hole is the doubt that a lost message of the journal leaves. The message may have been the hello of a node of which
// nothing else came yet. Nobody would miss that node's hits.
type hole struct {
	found time.Time // zero: there is no hole
	at    int64     // Unix ms: up to then all hits were here, before it
}

// foundHole notes that a message is lost. The caller holds mu.
func (r *Replica) foundHole(now time.Time) {
	r.holes++
	at := r.audit.progressOf(r.audit.Origin).at
	if !r.hole.found.IsZero() {
		at = min(at, r.hole.at)
	}
	r.hole = hole{now, at}
}

// knownUntil bounds at, the time up to which all hits are said to be here, while a hole is in doubt. The doubt ends
// when two things are true. A flush of every node that sends beats is followed. This node's own hits are followed
// beyond LateAfter after the hole. O(nodes) while there is a hole. The caller holds mu.
func (r *Replica) knownUntil(now time.Time, at int64) int64 {
	if r.hole.found.IsZero() {
		return at
	}
	until := now
	if own := r.peers[r.audit.Origin]; own != nil {
		until = own.fresh // what was written before that is followed
	}
	doubt := until.Sub(r.hole.found) <= LateAfter
	for origin, p := range r.peers {
		doubt = doubt || r.audit.byOrigin[origin] == nil && now.Sub(p.heard) <= ForgetAfter
	}
	if !doubt {
		r.hole = hole{}
		return at
	}
	return min(at, r.hole.at)
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
