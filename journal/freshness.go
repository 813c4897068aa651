package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OriginStatus is what this node knows of one that journals, itself included.
type OriginStatus struct {
	Node   string
	Origin string // 16 hex digits
	Epoch  uint64 // of its process
	Self   bool
	Left   bool      // it stopped, and all its hits are here
	Late   bool      // it is not heard of: its newer hits may be missing
	AsOf   time.Time // all that it took until then is counted here, by its clock
	Heard  time.Time // when its last flush came, by this node's clock
	Flush  uint64    // the last one
}

const (
	// heartbeat is how often a node journals when it has no hits.
	heartbeat = time.Second

	// lateAfter is how long a node may be silent.
	lateAfter = 3 * heartbeat

	// forgetAfter is how long one that never said that it stops is waited for.
	forgetAfter = 24 * time.Hour
)

// Origins says of each origin how much of it is counted here, by name.
func (j *Journal) Origins() []OriginStatus { return j.replica.origins(time.Now()) }

func (r *replica) origins(now time.Time) (list []OriginStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for origin, l := range r.audit.lanes {
		s := OriginStatus{
			Node: l.node, Origin: fmt.Sprintf("%016x", origin), Epoch: l.epoch, Left: l.left, Flush: l.flush,
			AsOf: time.UnixMilli(l.at), Heard: l.heard,
		}
		switch {
		case origin == r.audit.origin:
			continue
		case l.heard.IsZero() && now.Sub(s.AsOf) > forgetAfter, now.Sub(l.heard) > forgetAfter && !l.heard.IsZero():
			continue
		}
		s.Late = !s.Left && now.Sub(s.Heard) > lateAfter
		list = append(list, s)
	}
	self := OriginStatus{Node: r.node, Origin: fmt.Sprintf("%016x", r.audit.origin), Epoch: r.audit.self.epoch, Self: true, AsOf: now, Heard: now}
	if r.clustered {
		// What was journaled before its own last flush came back is here, and of an
		// origin that is not in the list nothing was.
		l := r.audit.lane(r.audit.origin)
		self.AsOf, self.Flush = time.UnixMilli(l.at), l.flush
	}
	list = append(list, self)
	list = withoutReplaced(list)
	slices.SortFunc(list, func(a, b OriginStatus) int { return strings.Compare(a.Node+a.Origin, b.Node+b.Origin) })
	return list
}

// withoutReplaced leaves out the origins of directories that a node of the same
// name has begun anew without: nothing comes of them any more.
func withoutReplaced(list []OriginStatus) []OriginStatus {
	newest := map[string]time.Time{}
	for _, o := range list {
		if o.AsOf.After(newest[o.Node]) {
			newest[o.Node] = o.AsOf
		}
	}
	return slices.DeleteFunc(list, func(o OriginStatus) bool { return o.Node != "" && o.AsOf.Before(newest[o.Node]) })
}

// Freshness says until when the hits of all nodes are counted here, and which
// nodes are late: what these have counted since may be missing. Alone, a node has
// all hits, always.
func (j *Journal) Freshness() (asOf time.Time, late []OriginStatus) {
	return j.replica.freshness(time.Now())
}

func (r *replica) freshness(now time.Time) (asOf time.Time, late []OriginStatus) {
	asOf = now
	if !r.clustered {
		return asOf, nil
	}
	for _, o := range r.origins(now) {
		if o.Left && !o.Self {
			continue
		}
		if o.AsOf.Before(asOf) {
			asOf = o.AsOf
		}
		if o.Late {
			late = append(late, o)
		}
	}
	return asOf, late
}
