// Package grant gives quota leases: a node gets part of a limit and decides by itself, and together the nodes never
// exceed the limit. It is pure: no clock, lock, network or journal.
//
// One node holds a key: it has a Book. Any node that is asked for the key, the holder too, has a
// Credit. A node asks (Ask) and is answered (Answer) over a network that loses, delays and repeats.
// The counters of both are totals of one grant, so a repeat changes nothing:
//
//	granted   admissions that the holder has granted, ever
//	used      of these, what the node has admitted
//	returned  of these, what it has given back: it never uses them
//
// What is out is granted - used - returned, as the holder knows it. The one rule is
//
//	used of the limit + all that is out <= burst, whenever something is granted or admitted
//
// It is enough: each admission was out when it was made, or was decided by the holder. From then on
// it is out until the node reports it, and counts as used at a time that is not before it was made. So
// whatever interval T ends now, its admissions are among what is out and what the limit counts.
//
// A grant ends after Terms.Life without an answer. The node counts that from before it sent the
// question, by its own monotonic clock; the holder from when it answers, and Margin longer. So the
// node's end is first, however long the messages took. What is out at the end stays out for a
// further T: it may have been used at the last moment. A report that comes meanwhile still
// settles it. A report of another grant, or another holder's, settles nothing.
//
// A holder must make sure before it answers that the next holder knows what is out (Book.Own), and that
// it is the holder still.
package grant

import (
	"math"
	"time"

	"github.com/weir-counter/weir/limit"
)

// Book is what the holder of a key knows of its grants, in addition to the limit's own state. The zero Book has
// granted nothing. Times are by the holder's monotonic clock, in ns.
type Book struct {
	grants []nodeGrant
	before []before
}

// nodeGrant is the grant to one node. Invariant: used + returned <= granted.
type nodeGrant struct {
	node     string
	id       ID
	granted  uint64
	used     uint64
	returned uint64
	end      int64 // the node uses nothing of it after that
	demand   uint64
	asked    int64 // when demand was reported; 0: never before
}

func (g *nodeGrant) out() uint64 { return g.granted - g.used - g.returned }

// before is what was out before: nobody can settle it.
type before struct {
	n     uint64
	until int64 // it counts until then, T included
	own   bool  // Own tells of it
}

// Basis is what a Book needs to make a grant.
type Basis struct {
	Now   int64
	Node  string
	Token uint64 // of the holder's time; a Book belongs to one
	Terms Terms
}

// end is when a grant ends that is answered now.
func (b *Basis) end() int64 { return b.Now + int64(b.Terms.Life+b.Terms.Margin()) }

// Out is how much of the limit is out at a time.
func (b *Book) Out(now int64, t Terms) (n uint64) {
	b.lapse(now, t)
	for i := range b.grants {
		n += b.grants[i].out()
	}
	for _, p := range b.before {
		n += p.n
	}
	return n
}

// Granted is how much nodes have of grants that can be settled.
func (b *Book) Granted() (n uint64) {
	for i := range b.grants {
		n += b.grants[i].out()
	}
	return n
}

// Own is what the next holder must know to be out, for Terms.Held from now on.
func (b *Book) Own(now int64, t Terms) (n uint64) {
	b.lapse(now, t)
	for i := range b.grants {
		n += b.grants[i].out()
	}
	for _, p := range b.before {
		if p.own {
			n += p.n
		}
	}
	return n
}

// Recover notes what an earlier holder had out; own, if this node was that, and its word will be replaced
// by Own.
func (b *Book) Recover(n uint64, until int64, own bool) {
	if n > 0 {
		b.before = append(b.before, before{n, until, own})
	}
}

// Idle reports whether the Book knows nothing that matters.
func (b *Book) Idle(now int64, t Terms) bool {
	b.lapse(now, t)
	return len(b.grants)+len(b.before) == 0
}

// GrantedNothing reports whether the Book knows of nothing but how much nodes ask for.
func (b *Book) GrantedNothing() bool {
	for i := range b.grants {
		if b.grants[i].granted > 0 {
			return false
		}
	}
	return len(b.before) == 0
}

// lapse forgets what has ended, T ago.
func (b *Book) lapse(now int64, t Terms) {
	keep := b.grants[:0]
	for _, l := range b.grants {
		if now < l.end || l.out() > 0 && now < l.end+int64(t.Interval) {
			keep = append(keep, l)
		}
	}
	clear(b.grants[len(keep):])
	b.grants = keep
	kept := b.before[:0]
	for _, p := range b.before {
		if now < p.until {
			kept = append(kept, p)
		}
	}
	b.before = kept
}

// Settle processes what a node reports. It calls charge with what the node has used since its last report: n
// admissions, made at the time at, or earlier.
func (b *Book) Settle(by Basis, a *Ask, charge func(at int64, n uint64)) {
	grant := b.grantOf(by, a)
	grant.demand, grant.asked = a.Demand, by.Now
	if a.ID != grant.id || a.Returned > math.MaxUint64-a.Used {
		return
	}
	grant.resume(a)
	fresh := a.Used - min(a.Used, grant.used)
	grant.used = max(grant.used, a.Used)
	grant.returned = min(max(grant.returned, a.Returned), grant.granted-grant.used)
	for i := len(a.Uses) - 1; i >= 0 && fresh > 0; i-- { // the newest were not reported before
		n := min(a.Uses[i].N, fresh)
		age := max(0, a.Uses[i].Age)
		charge(by.Now-int64(age-age/rateError), n)
		fresh -= n
	}
	if fresh > 0 { // of no known time
		charge(by.Now, fresh)
	}
}

// resume continues a grant of this holder that had ended and was forgotten, because all of it was settled or it ended
// T ago. It takes over the node's totals. What the node has left of the grant has ended, too. Otherwise a new grant
// could lie within totals that the node had already reached, and nobody could use it.
func (g *nodeGrant) resume(a *Ask) {
	if a.Used+a.Returned <= g.granted {
		return
	}
	confirmed := a.Used
	for _, u := range a.Uses {
		confirmed -= min(confirmed, u.N)
	}
	g.granted, g.used = a.Used+a.Returned, max(g.used, confirmed)
}

// GrantedOther reports whether a node may use a grant with another number than the given one now. A node has a Credit
// for each limit of a name, but a key has one Book. If two Credits kept replacing each other's grant, what is out
// would count as used each time.
func (b *Book) GrantedOther(now int64, node string, number uint64) bool {
	for i := range b.grants {
		if grant := &b.grants[i]; grant.node == node {
			return grant.id.Number != number && grant.out() > 0 && now < grant.end
		}
	}
	return false
}

// grantOf is the grant that a node asks with, or a new one.
func (b *Book) grantOf(by Basis, a *Ask) *nodeGrant {
	for i := range b.grants {
		grant := &b.grants[i]
		if grant.node != by.Node {
			continue
		}
		if a.ID.Number != grant.id.Number { // the node has forgotten the grant, and may have used some of it
			b.Recover(grant.out(), grant.end+int64(by.Terms.Interval), true)
			*grant = nodeGrant{node: by.Node, id: ID{by.Token, a.ID.Number}, end: by.end()}
		}
		return grant
	}
	b.grants = append(b.grants, nodeGrant{node: by.Node, id: ID{by.Token, a.ID.Number}, end: by.end()})
	return &b.grants[len(b.grants)-1]
}

// Decided is what became of an Ask's Need, and what the limit says after that.
type Decided struct {
	Allowed bool
	Free    uint64        // neither used nor out
	Wait    time.Duration // until the limit has more than now, if nothing is returned; 0: it has all
	Reset   time.Duration // until the limit has all
}

// Grant answers an Ask that was settled, once its Need was decided. What is out lasts for another
// Terms.Life from now.
func (b *Book) Grant(by Basis, a *Ask, d Decided) Answer {
	own := b.Own(by.Now, by.Terms)
	grant := b.grantOf(by, a)
	out := grant.out()
	want := min(a.Want, by.Terms.Most, out+by.Terms.MaxOut()-min(by.Terms.MaxOut(), own))
	if !by.Terms.Grants() {
		want = 0
	}
	give := uint64(0)
	if want > out {
		give = min(want-out, b.share(by, grant, d.Free))
	}
	grant.granted += give
	grant.end = by.end()
	answer := Answer{
		ID: grant.id, Granted: grant.granted, Used: a.Used, Allowed: d.Allowed,
		Short: d.Free == give && (want > out+give || !d.Allowed), Free: d.Free - give, Wait: d.Wait, Reset: d.Reset,
	}
	for i := range b.grants {
		if b.grants[i].node != by.Node {
			answer.Out += b.grants[i].out()
		}
	}
	if answer.Short || !d.Allowed {
		answer.Pause = b.pause(by, answer.Out, d.Wait)
	}
	return answer
}

// share returns how much of what is free a node gets. If all nodes together demand less than a third of it within a
// renewal interval, the node gets all of it. Otherwise capacity is scarce. The node then gets its demand for a
// fraction of a renewal interval, and no more than its share by demand, so that little lies unused. A share below
// scarceLeast grants nothing: the owner decides request by request.
func (b *Book) share(by Basis, grant *nodeGrant, free uint64) uint64 {
	all, nodes := grant.demand, uint64(1)
	for i := range b.grants {
		if g := &b.grants[i]; g != grant && by.Now-g.asked <= claimPaces*int64(by.Terms.Pace) {
			all += g.demand
			nodes++
		}
	}
	if all == 0 || free/scarcePaces >= all {
		return free
	}
	share := min(uint64(float64(grant.demand)*float64(by.Terms.short())/float64(by.Terms.Pace)), uint64(float64(free)*float64(grant.demand)/float64(all)))
	if share < scarceLeast {
		return 0
	}
	return share
}

const (
	// After so many renewal intervals without an Ask, a node counts as having no demand.
	claimPaces = 6

	// Capacity is scarce unless the demand of so many renewal intervals is free.
	scarcePaces = 3

	// While capacity is scarce, a renewal interval is divided into so many parts.
	scarceParts = 4

	// scarceLeast is the smallest grant while capacity is scarce.
	scarceLeast = 2
)

// pause returns after how long a node that got nothing should ask again. By then the limit has more, or another node
// may have returned some of what is out. The pause is short because limits change.
func (b *Book) pause(by Basis, out uint64, wait time.Duration) time.Duration {
	most := longestPause
	if out > 0 {
		most = by.Terms.Pace
	}
	return min(max(wait, by.Terms.short()), most)
}

// Terms are what a limit's interval makes of its grants.
type Terms struct {
	Interval time.Duration // T of the limit
	Life     time.Duration // of a grant, from its last answer
	Pace     time.Duration // how often a node asks for a key that is asked for all the time
	Most     uint64        // that a node may have: a quarter of the burst
}

const (
	shortestLife, longestLife = time.Second, 10 * time.Second
	shortestPace, longestPace = 5 * time.Millisecond, time.Second

	// longestPause is how long a node denies by what the holder said: then it may have more, since
	// limits change.
	longestPause = 2 * time.Second

	// A limit's interval has so many renewal intervals. Capacity that is free at the holder, or at a node that does
	// not need it, stays unused for about half a renewal interval.
	paces = 20

	// longerPeriod is more than by how much one period of a calendar is longer than another.
	longerPeriod = 5 * 24 * time.Hour

	// A node asks for a grant from so many admissions per renewal interval on.
	hot = 4
)

// TermsOf returns the terms of a limit that limit.New accepts and whose burst is filled in.
func TermsOf(l limit.Limit) Terms {
	interval := l.Interval()
	if l.Calendar.Unit != limit.NoUnit {
		interval += longerPeriod
	}
	return Terms{
		Interval: interval,
		Life:     min(max(interval/8, shortestLife), longestLife),
		Pace:     min(max(interval/paces, shortestPace), longestPace),
		Most:     l.Burst / 4,
	}
}

// Margin is how much longer the holder counts a grant than the node does. The clocks of two nodes may differ in speed
// by a part in 64.
func (t Terms) Margin() time.Duration { return t.Life/rateError + time.Millisecond }

// rateError is one part in how many a clock may run too fast or too slowly.
const rateError = 64

// Held is for how long what is out counts, from the last answer: until T after the grant's end.
func (t Terms) Held() time.Duration { return t.Life + t.Margin() + t.Interval }

// MaxOut is how much of one key may be out at once, as far as one number in the journal can express it. It is more
// than limit.MaxRate admits while a grant counts.
func (t Terms) MaxOut() uint64 { return uint64(t.Held()/time.Microsecond) - 1 }

// Grants reports whether parts of a limit are granted at all. They are not if T is longer than a year, less a day for
// what Held adds.
func (t Terms) Grants() bool { return t.Interval <= limit.MaxPer-24*time.Hour }

// short is how long a grant should suffice while capacity is scarce: not less than a message takes.
func (t Terms) short() time.Duration { return max(t.Pace/scarceParts, shortestPace) }

// ID names one grant: of one holder's time, to one Credit of a node.
type ID struct {
	Token  uint64 // the fencing token of the holder's lease; 0: the node does not know one yet
	Number uint64 // the number that NewCredit was given
}

// Ask is what a node says to the holder of a key, and asks for.
type Ask struct {
	ID       ID
	Used     uint64 // of the grant, all together
	Returned uint64
	Uses     []Use  // the newest of Used, the oldest first; earlier ones were reported before
	Need     uint64 // admissions that a request waits for: all or none
	Want     uint64 // what the node could use within the next renewal interval, in addition to Need
	Demand   uint64 // admissions requested per renewal interval
}

// Use is N admissions. Age is how long ago the last one was.
type Use struct {
	N   uint64
	Age time.Duration
}

// Answer is the holder's.
type Answer struct {
	ID      ID // of another Token than the Ask's: a new grant
	Granted uint64
	Used    uint64 // Used of the Ask, which need not be reported again
	Allowed bool   // Need was admitted: it counts, and is not of the grant
	Short   bool   // the node got less than it wanted
	Pause   time.Duration
	Free    uint64        // what was left at the holder
	Out     uint64        // what was out at other nodes
	Wait    time.Duration // until the limit has more than now, if nothing is returned
	Reset   time.Duration // until the whole burst is there again, if nothing more is used
}
