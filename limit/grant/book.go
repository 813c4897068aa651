package grant

import "time"

// Book is what the holder of a key knows of it beside the limit's own state. The zero Book has lent
// nothing. Times are by the holder's monotonic clock, in ns.
type Book struct {
	grants []lent
	before []before
}

// lent is the grant of one node. Invariant: used + returned <= granted.
type lent struct {
	node     string
	id       ID
	granted  uint64
	used     uint64
	returned uint64
	end      int64 // the node uses nothing of it after that
	demand   uint64
	asked    int64 // when demand was told; 0: never before
	turn     int64 // how long that was after the time before
}

func (l *lent) out() uint64 { return l.granted - l.used - l.returned }

// before is what was out before: nobody can settle it.
type before struct {
	n     uint64
	until int64 // it counts until then, T included
	own   bool  // Own tells of it
}

// Lend is what a Book needs to lend.
type Lend struct {
	Now   int64
	Node  string
	Token uint64 // of the holder's time; a Book belongs to one
	Terms Terms
}

// end is when a grant ends that is answered now.
func (l *Lend) end() int64 { return l.Now + int64(l.Terms.Life+l.Terms.Margin()) }

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

// Idle tells whether the Book knows nothing that matters.
func (b *Book) Idle(now int64, t Terms) bool {
	b.lapse(now, t)
	return len(b.grants)+len(b.before) == 0
}

// LentNothing tells whether the Book knows of nothing but how much nodes ask for.
func (b *Book) LentNothing() bool {
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

// Settle takes in what a node reports, and calls charge with what it has used since its last report:
// n admissions, made at the time at, or earlier.
func (b *Book) Settle(l Lend, a *Ask, charge func(at int64, n uint64)) {
	of := b.of(l, a)
	of.demand, of.turn, of.asked = a.Demand, l.Now-of.asked, l.Now
	if a.ID != of.id || a.Used > of.granted || a.Returned > of.granted-a.Used {
		return
	}
	fresh := a.Used - min(a.Used, of.used)
	of.used = max(of.used, a.Used)
	of.returned = min(max(of.returned, a.Returned), of.granted-of.used)
	for i := len(a.Uses) - 1; i >= 0 && fresh > 0; i-- { // the newest are those that were not told
		n := min(a.Uses[i].N, fresh)
		age := max(0, a.Uses[i].Age)
		charge(l.Now-int64(age-age/rateError), n)
		fresh -= n
	}
	if fresh > 0 { // of no known time
		charge(l.Now, fresh)
	}
}

// of is the grant that a node asks with, or a new one.
func (b *Book) of(l Lend, a *Ask) *lent {
	for i := range b.grants {
		of := &b.grants[i]
		if of.node != l.Node {
			continue
		}
		if a.ID.Number != of.id.Number { // the node has forgotten it, after it may have used some
			b.Recover(of.out(), of.end+int64(l.Terms.Interval), true)
			*of = lent{node: l.Node, id: ID{l.Token, a.ID.Number}, end: l.end()}
		}
		return of
	}
	b.grants = append(b.grants, lent{node: l.Node, id: ID{l.Token, a.ID.Number}, end: l.end()})
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
func (b *Book) Grant(l Lend, a *Ask, d Decided) Answer {
	of := b.of(l, a)
	out := of.out()
	give := uint64(0)
	own := b.Own(l.Now, l.Terms)
	of = b.of(l, a)
	want := min(a.Want, l.Terms.Most, out+l.Terms.MaxOut()-min(l.Terms.MaxOut(), own))
	if !l.Terms.Lends() {
		want = 0
	}
	if want > out {
		give = min(want-out, b.share(l, of, d.Free))
	}
	of.granted += give
	of.end = l.end()
	answer := Answer{
		ID: of.id, Granted: of.granted, Used: a.Used, Allowed: d.Allowed,
		Short: want > out+give, Free: d.Free - give, Wait: d.Wait, Reset: d.Reset,
	}
	for i := range b.grants {
		if b.grants[i].node != l.Node {
			answer.Out += b.grants[i].out()
		}
	}
	if answer.Short || !d.Allowed {
		answer.Pause = b.pause(l, of, d.Wait)
	}
	return answer
}

// share is how much of what is free a node gets: all that others have no claim to, or its part by what
// all are asked for. A claim grows for a pace from when its node asked last, so that what one gets
// leaves enough for those whose turn comes.
func (b *Book) share(l Lend, of *lent, free uint64) uint64 {
	claim := func(g *lent, since int64) float64 {
		return float64(g.demand) * min(1, float64(since)/float64(l.Terms.Pace))
	}
	others, unmet := 0.0, 0.0
	for i := range b.grants {
		g := &b.grants[i]
		if since := l.Now - g.asked; g != of && since <= claimPaces*int64(l.Terms.Pace) {
			others += claim(g, since)
			unmet += max(0, 1.25*claim(g, since)-float64(g.out()))
		}
	}
	own := claim(of, of.turn)
	if others == 0 {
		return free
	}
	return uint64(max(float64(free)-unmet, float64(free)*own/(own+others), 0))
}

// claimPaces is for how many paces a node that does not ask is taken to have demand.
const claimPaces = 6

// pause is after how long a node that got too little should ask again: when the limit has more, or
// another node may have returned some. Not too late, since limits change.
func (b *Book) pause(l Lend, of *lent, wait time.Duration) time.Duration {
	most := longestPause
	for i := range b.grants {
		if g := &b.grants[i]; g != of && g.out() > 0 {
			most = min(most, reportPaces*l.Terms.Pace)
		}
	}
	if wait < l.Terms.Pace/4 {
		wait = l.Terms.Pace
	}
	return min(wait, most)
}
