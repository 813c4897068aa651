package replica

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// OriginStatus is what this node knows of a node that journals, itself included.
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
	Heard  time.Time // when its last message arrived, by this node's clock
	Flush  uint64    // the last one
}

// Origins says of each origin how much of it is counted here, by name. O(nodes²).
func (r *Replica) Origins(now time.Time) (list []OriginStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for origin, l := range r.audit.byOrigin {
		if origin != r.audit.Origin && !l.undecided() && !r.forgotten(now, l) && !l.replaced(now) && !(record.IsBackupName(l.node) && l.left) {
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

// forgotten reports whether an origin is waited for no longer. The caller holds mu.
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
		if origin == r.audit.Origin || l.undecided() || l.left && why == "" || l.at >= at && why == "" || r.forgotten(now, l) || l.replaced(now) {
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

// replaced reports whether a node of the same name has started over without this directory: nothing comes of it any more. O(nodes).
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

// Heartbeat is a node's message about itself, sent at an interval, outside the journal. Its only times are durations,
// so the clocks of other nodes need not agree with its own.
type Heartbeat struct {
	record.Incarnation
	Node    string
	Promise time.Duration // see promised
	Flush   uint64        // its last one that is in the journal
	Age     time.Duration // since it began to gather that: what it took before is in the journal
	Wrong   string        // why its replicas do not store, at most reasonMost bytes; "": they do, or it is not known
}

// The bytes of a heartbeat:
//
//	byte 0     'B'
//	byte 1     version, 2
//	8 bytes    origin, little endian
//	           epoch, flush, age and promise in ms, as unsigned varints
//	           the node's name, and why its replicas do not store, with their lengths before them
const (
	heartbeatMagic   = 'B'
	heartbeatVersion = 2
)

// Encode is the bytes of a beat.
func (b Heartbeat) Encode() []byte {
	return wire.Append([]byte{heartbeatMagic, heartbeatVersion}, b.fields)
}

// DecodeHeartbeat is false where it is cut, made up, or of another version.
func DecodeHeartbeat(data []byte) (b Heartbeat, ok bool) {
	r := wire.NewReader(data)
	if r.Byte() != heartbeatMagic || r.Byte() != heartbeatVersion {
		return Heartbeat{}, false
	}
	wire.Read(r, b.fields)
	return b, r.Done()
}

// longest bounds the times of a beat: beyond that it is made up.
const longest = 366 * 24 * time.Hour

func (b *Heartbeat) fields(c *wire.Codec) {
	c.Uint64(&b.Origin)
	c.Uvarints(&b.Epoch, &b.Flush)
	for _, d := range []*time.Duration{&b.Age, &b.Promise} {
		ms := d.Milliseconds()
		wire.Number(c, &ms, uint64(longest.Milliseconds()))
		*d = time.Duration(ms) * time.Millisecond
	}
	c.Text(&b.Node, record.MaxNodeBytes)
	c.Text(&b.Wrong, reasonMost)
}

// Written is the last flush of this life that is in the journal.
type Written struct {
	Flush uint64
	Began time.Time // to be gathered
}

// MergedWhole reports whether the last batch of a backup was applied.
func (r *Replica) MergedWhole(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.audit.byOrigin[id]
	return l != nil && l.left
}

// Replaced reports whether a backup that replaces all hits was applied.
func (r *Replica) Replaced(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.audit.byOrigin[id]
	return l != nil && slices.ContainsFunc(l.positions, func(at record.Position) bool { return at.Seq > 0 })
}

// Undecided are the backups that are to replace all hits, and of which the end did not come yet.
func (r *Replica) Undecided() (ids []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for origin, l := range r.audit.byOrigin {
		if l.undecided() {
			ids = append(ids, origin)
		}
	}
	return ids
}

// Knows tells which of some origins has batches here; id is passed over.
func (r *Replica) Knows(origins []uint64, id uint64) (origin uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, origin := range origins {
		if r.audit.byOrigin[origin] != nil && origin != id {
			return origin, true
		}
	}
	return 0, false
}

// Removed makes an origin one that has left, if nothing of it is here that is newer
// than at, Unix ms of its clock. Its next flush, if one comes, says otherwise.
func (r *Replica) Removed(origin string, at int64) bool {
	id, err := strconv.ParseUint(origin, 16, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.audit.byOrigin[id]
	if l == nil { // nothing of it is here
		known := r.peers[id] != nil
		delete(r.peers, id)
		return known
	}
	if l.at > at {
		return false
	}
	l.left = true
	return true
}

// Clock is another node's, as one exchange of messages shows it.
type Clock struct {
	Node   string
	Origin string        // 16 hex digits
	Skew   time.Duration // above 0: it is ahead of ours; RTT/2 in doubt
	RTT    time.Duration
}

// ClocksAgree is how far clocks may differ, in addition to the uncertainty of the exchange.
const ClocksAgree = 500 * time.Millisecond

// ClockVerdict is what a node knows of its clock.
type ClockVerdict struct {
	Correction time.Duration // by which it is behind the majority, if that is more than they may differ
	Spread     time.Duration // the largest difference between clocks where no majority agrees; 0: one does
	Compared   int           // clocks of others
}

// JudgeClocks decides by the clocks of others.
func JudgeClocks(others []Clock) ClockVerdict {
	v := ClockVerdict{Compared: len(others)}
	skews, doubt := []time.Duration{0}, time.Duration(0)
	for _, c := range others {
		skews = append(skews, c.Skew)
		doubt = max(doubt, c.RTT/2)
	}
	slices.Sort(skews)
	agree := ClocksAgree + min(doubt, ClocksAgree)
	best := skews[:0]
	for first := range skews {
		last := first
		for last+1 < len(skews) && skews[last+1]-skews[first] <= agree {
			last++
		}
		if last+1-first > len(best) {
			best = skews[first : last+1]
		}
	}
	switch {
	case 2*len(best) <= len(skews):
		v.Spread = skews[len(skews)-1] - skews[0]
	case best[0] > 0 || best[len(best)-1] < 0: // and so this node's is not among them
		v.Correction = best[len(best)/2]
	}
	return v
}

// NoteClockSet notes that the time of day was set since the last call, and by how much. Messages after the given one
// have times of the new clock. is reports whether it was set.
func (r *Replica) NoteClockSet(after uint64) (by time.Duration, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by = r.unnoted(); by.Abs() < ClocksAgree {
		return by, false
	}
	r.Sets, r.behind = r.Sets.With(record.ClockSet{After: after, MS: by.Milliseconds()}), r.behind+by
	return by, true
}

// unnoted is by how much the time of day was set forward since Sets was noted; less than ClocksAgree is drift.
func (r *Replica) unnoted() time.Duration {
	return r.engine.LimitClockBehind() - r.behind
}

// ClockSets returns Sets, a list that does not change.
func (r *Replica) ClockSets() record.ClockSets {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Sets
}

// sinceSet returns by how much the time of day was set forward since a message, or since a snapshot that goes up to
// it. A set that is not in Sets yet counts for every message. The caller holds mu, or nobody else has the replica yet.
func (r *Replica) sinceSet(message uint64) time.Duration {
	list := r.Sets
	if by := r.unnoted(); by.Abs() >= ClocksAgree {
		list = list.With(record.ClockSet{After: math.MaxUint64, MS: by.Milliseconds()})
	}
	return list.Since(message)
}
