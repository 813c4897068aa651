package replica

import (
	"fmt"
	"maps"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Lateness is why hits of a node may be missing from the answers of this one.
type Lateness string

const (
	// Silent: no messages of it arrive. It may be down, cut off, or stopped.
	Silent Lateness = "silent"
	// Unwritten: its messages arrive, but what it took is not in the journal. Too few nodes reach each other, or their
	// disks are full.
	Unwritten Lateness = "unwritten"
	// Behind: what it took is in the journal, and not applied here: this node can't keep up,
	// or does not get the messages.
	Behind Lateness = "behind"
)

const (
	// HeartbeatEvery is how often a node says that it is there, whatever its flush interval, and
	// how often it journals when it has no hits.
	HeartbeatEvery = time.Second

	// LateAfter is how long a node may be silent, and how much later than it promised the
	// hits that it took may be here.
	LateAfter = 3 * HeartbeatEvery

	// ForgetAfter is how long one that never said that it stops is waited for.
	ForgetAfter = 24 * time.Hour
)

// Promised is the time within which a node writes a flush with all that it took, or an empty one if it took nothing.
// If a tick falls in between, the next one sends the heartbeat.
func Promised(flushEvery time.Duration) time.Duration { return flushEvery + HeartbeatEvery }

// peer is what a node knows by the beats of another one, or by its own. How fresh the
// other's hits are here is judged by time that passed, on its clock and on this one's: by
// silence, and by lag.
type peer struct {
	node    string
	epoch   uint64
	promise time.Duration
	age     time.Duration
	heard   time.Time // of the last one
	fresh   time.Time // by our clock: what the other took until then is counted here; zero: nothing of its journal is known
	claims  []claim   // what is not followed yet, the oldest first
}

// claim is that all that an origin took until then is in the journal with a flush.
type claim struct {
	record.Head
	until time.Time // by our clock
}

// maxClaims bounds the claims of a peer: some seconds of them, after which it is late.
const maxClaims = 8

// hear takes a beat that has just come.
func (p *peer) hear(now time.Time, b Heartbeat) {
	if b.Epoch < p.epoch {
		return // of an earlier life
	}
	p.node, p.epoch, p.promise, p.age, p.heard = b.Node, b.Epoch, b.Promise, b.Age, now
	c := claim{record.Head{Epoch: b.Epoch, Flush: b.Flush}, now.Add(-b.Age)}
	switch last := len(p.claims) - 1; {
	case last >= 0 && p.claims[last].Head == c.Head: // the one that was faster on its way says it best
		if c.until.Before(p.claims[last].until) {
			p.claims[last] = c
		}
	case len(p.claims) < maxClaims:
		p.claims = append(p.claims, c)
	default:
		p.claims[last] = c
	}
}

// follow takes off the claims that were followed, up to a flush.
func (p *peer) follow(to record.Head) {
	for len(p.claims) > 0 && !to.Before(p.claims[0].Head) {
		if c := p.claims[0]; c.until.After(p.fresh) {
			p.fresh = c.until
		}
		p.claims = p.claims[1:]
	}
}

// late returns why a peer is late, "" if it is not, and since when hits of it may be missing, by our clock. Another
// message of it arrived at heard.
func (p *peer) late(now, heard time.Time) (why Lateness, since time.Time) {
	if p.heard.After(heard) {
		heard = p.heard
	}
	since = p.fresh
	if since.IsZero() {
		since = heard
		if len(p.claims) > 0 {
			since = p.claims[0].until
		}
	}
	switch {
	case now.Sub(heard) > LateAfter:
		return Silent, since
	case now.Sub(since) <= p.promise+LateAfter:
		return "", time.Time{}
	case len(p.claims) > 0 && p.age <= p.promise+HeartbeatEvery:
		return Behind, since
	}
	return Unwritten, since
}

// maxPeers bounds them: nodes of one journal, and those that were replaced.
const maxPeers = 10_000

// Hear takes a beat, of this node's own too: it says how fresh its own flushes are.
func (r *Replica) Hear(now time.Time, b Heartbeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peerOf(now, b.Origin)
	if p == nil {
		return
	}
	r.followed(b.Origin, p)
	fresh := r.freshBefore(b.Origin)
	if until := now.Add(-b.Age); until.Before(fresh) { // what it took since is in no flush yet
		fresh = until
	}
	if b.Epoch > p.epoch && fresh.After(p.fresh) {
		p.fresh = fresh
	}
	p.hear(now, b)
	r.followed(b.Origin, p)
}

// Expect notes that a member of the cluster began a life, according to the registry of the cluster. If neither its
// hello nor a beat of that life arrives, the member is silent after LateAfter. O(nodes).
func (r *Replica) Expect(now time.Time, incarnation record.Incarnation, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.peers, func(origin uint64, p *peer) bool { // of its directory before
		return p.node == node && origin != incarnation.Origin && r.audit.byOrigin[origin] == nil && now.Sub(p.heard) > LateAfter
	})
	if l := r.audit.byOrigin[incarnation.Origin]; l != nil && (l.epoch >= incarnation.Epoch || !l.left) {
		return // its flushes tell
	}
	if p := r.peerOf(now, incarnation.Origin); p != nil && p.epoch < incarnation.Epoch {
		p.node, p.epoch, p.heard, p.fresh = node, incarnation.Epoch, now, Later(p.fresh, r.freshBefore(incarnation.Origin))
	}
}

// peerOf returns an origin's, which may be new; nil: there are too many. The caller holds mu.
func (r *Replica) peerOf(now time.Time, origin uint64) *peer {
	if p := r.peers[origin]; p != nil {
		return p
	}
	for origin, old := range r.peers {
		if now.Sub(old.heard) > ForgetAfter {
			delete(r.peers, origin)
		}
	}
	if len(r.peers) >= maxPeers {
		return nil
	}
	r.peers[origin] = &peer{}
	return r.peers[origin]
}

// freshBefore returns the time up to which no hit of an origin is missing, as known before the first beat of its life.
// A flush that arrives now does not show that: it may have waited for long, and another may follow. If the origin has
// not said hello, the journal has nothing of its life as far as this node's own flushes are followed. The caller holds
// mu.
func (r *Replica) freshBefore(origin uint64) time.Time {
	if l := r.audit.byOrigin[origin]; l != nil && !l.left {
		return l.fresh
	}
	if own := r.peers[r.audit.Origin]; own != nil {
		return own.fresh
	}
	return time.Time{}
}

func (r *Replica) followed(origin uint64, p *peer) {
	if l := r.audit.byOrigin[origin]; l != nil {
		p.follow(record.Head{Epoch: l.epoch, Flush: l.flush})
	}
}

// lateness returns why an origin is late, and since when. The caller holds mu.
func (r *Replica) lateness(now time.Time, l *Progress) (why Lateness, since time.Time) {
	p := r.peers[l.origin]
	switch {
	case l.left && (p == nil || p.epoch <= l.epoch):
		return "", time.Time{} // it may have begun a life that is not followed yet
	case p != nil:
		r.followed(l.origin, p)
	case l.origin == r.audit.Origin: // its first beat is not there yet
		return "", time.Time{}
	case now.Sub(l.fresh) <= LateAfter:
		return "", time.Time{}
	default: // its flushes may come, but no beat has
		return Silent, l.fresh
	}
	return p.late(now, l.heard)
}

// unknown returns the late peers without a followed flush: their messages arrive, but what they journaled is not here.
// This node is complete up to asOf; until then they had nothing.
func (r *Replica) unknown(now time.Time, asOf int64) (late []OriginStatus) {
	for origin, p := range r.peers {
		if r.audit.byOrigin[origin] != nil || now.Sub(p.heard) > ForgetAfter {
			continue
		}
		if why, since := p.late(now, p.heard); why != "" {
			late = append(late, OriginStatus{Node: p.node, Origin: fmt.Sprintf("%016x", origin), Epoch: p.epoch,
				Late: true, Why: why, Since: since, AsOf: time.UnixMilli(asOf), Heard: p.heard})
		}
	}
	return late
}
