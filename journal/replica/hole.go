package replica

import "time"

// hole is what a lost message of the journal leaves in doubt: it may have been the hello of
// a node of which nothing else came yet, whose hits nobody misses then.
type hole struct {
	found time.Time // zero: there is none
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

// knownUntil bounds up to when all hits may be said to be here, at, while a hole is in
// doubt: until all that are there have said so by a beat, and a flush of each is followed, as is one of this node that it
// took hits for later than that.
// O(nodes) while there is one. The caller holds mu.
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
