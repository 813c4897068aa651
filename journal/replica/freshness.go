package replica

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/journal/record"
)

// OriginStatus is what this node knows of one that journals, itself included.
type OriginStatus struct {
	Node   string
	Origin string // 16 hex digits
	Epoch  uint64 // of its process
	Self   bool
	Left   bool      // it stopped, and all its hits are here
	Late   bool      // its newer hits may be missing
	Why    Lateness  // it is late; "": it is not
	Since  time.Time // when it is late: from then on hits may be missing, by this node's clock
	AsOf   time.Time // all that it took until then is counted here, by its clock
	Heard  time.Time // when it was last heard of, by this node's clock
	Flush  uint64    // the last one
}

// Origins says of each origin how much of it is counted here, by name. O(nodes²).
func (r *Replica) Origins(now time.Time) (list []OriginStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for origin, l := range r.audit.byOrigin {
		if origin != r.audit.Origin && !r.forgotten(now, l) && !(record.IsBackupName(l.node) && (l.left || l.replaced(now))) {
			list = append(list, r.status(now, l))
		}
	}
	self := OriginStatus{Node: r.node, Origin: fmt.Sprintf("%016x", r.audit.Origin), Epoch: r.audit.self.Epoch, Self: true, AsOf: now, Heard: now}
	if r.clustered {
		// What was journaled before its own last flush came back is here, and of an
		// origin that is not in the list nothing was.
		l := r.audit.progressOf(r.audit.Origin)
		at := r.knownUntil(now, l.at)
		self.AsOf, self.Flush = time.UnixMilli(at), l.flush
		self.Why, self.Since = r.lateness(now, l)
		self.Late = self.Why != ""
		list = append(list, r.unknown(now, at)...)
	}
	list = append(list, self)
	list = withoutReplaced(list)
	slices.SortFunc(list, byNode)
	return list
}

func byNode(a, b OriginStatus) int {
	return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Origin, b.Origin))
}

func (r *Replica) status(now time.Time, l *Progress) OriginStatus {
	why, since := r.lateness(now, l)
	o := OriginStatus{
		Node: l.node, Origin: fmt.Sprintf("%016x", l.origin), Epoch: l.epoch, Left: l.left && why == "", Late: why != "", Why: why, Since: since, Flush: l.flush,
		AsOf: time.UnixMilli(l.at), Heard: l.heard,
	}
	if p := r.peers[l.origin]; p != nil {
		o.Node = cmp.Or(o.Node, p.node) // where its first flushes are lost
		o.Heard = Later(o.Heard, p.heard)
	}
	return o
}

// forgotten tells whether an origin is waited for no longer. The caller holds mu.
func (r *Replica) forgotten(now time.Time, l *Progress) bool {
	p := r.peers[l.origin]
	return l.forgotten(now) && (p == nil || now.Sub(p.heard) > ForgetAfter)
}

// forgotten is by its flushes only.
func (l *Progress) forgotten(now time.Time) bool {
	if l.heard.IsZero() {
		return now.Sub(time.UnixMilli(l.at)) > ForgetAfter
	}
	return now.Sub(l.heard) > ForgetAfter
}

// withoutReplaced leaves out the origins of directories that a node of the same
// name has started over without: nothing comes of them any more.
func withoutReplaced(list []OriginStatus) []OriginStatus {
	newest := map[string]time.Time{}
	for _, o := range list {
		if o.AsOf.After(newest[o.Node]) {
			newest[o.Node] = o.AsOf
		}
	}
	return slices.DeleteFunc(list, func(o OriginStatus) bool { return o.Node != "" && o.AsOf.Before(newest[o.Node]) })
}

// Freshness is what origins says, in short. It is asked for reads, while the follower
// wants the lock: so it formats and sorts only those that are late, which are few.
// O(nodes), and O(nodes) more for each of these.
func (r *Replica) Freshness(now time.Time) (asOf time.Time, late []OriginStatus) {
	today := r.stamped(now)
	if !r.clustered {
		return today, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.audit.progressOf(r.audit.Origin)
	at := r.knownUntil(now, own.at)
	if why, since := r.lateness(now, own); why != "" {
		late = append(late, OriginStatus{Node: r.node, Origin: fmt.Sprintf("%016x", own.origin), Epoch: r.audit.self.Epoch, Self: true,
			Late: true, Why: why, Since: since, AsOf: time.UnixMilli(at), Heard: now, Flush: own.flush})
	}
	late = append(late, r.unknown(now, at)...)
	for origin, l := range r.audit.byOrigin {
		why, _ := r.lateness(now, l)
		if origin == r.audit.Origin || l.left && why == "" || l.at >= at && why == "" || r.forgotten(now, l) || l.replaced(now) {
			continue
		}
		at = min(at, l.at)
		if why != "" {
			late = append(late, r.status(now, l))
		}
	}
	slices.SortFunc(late, byNode)
	if asOf = time.UnixMilli(at); asOf.After(today) {
		asOf = today
	}
	return asOf, late
}

// replaced is withoutReplaced, of one origin. O(nodes).
func (l *Progress) replaced(now time.Time) bool {
	if l.node == "" {
		return false
	}
	for _, other := range l.byOrigin {
		if other.at > l.at && other.node == l.node && !other.forgotten(now) {
			return true
		}
	}
	return false
}
