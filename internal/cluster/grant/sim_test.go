package grant

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/limit"
)

var (
	simSeeds = flag.Int("sim.seeds", 100, "how many seeds TestSimulation runs")
	simFirst = flag.Uint64("sim.first", 0, "the first of them")
)

const (
	ms = int64(time.Millisecond)

	simTTL  = 400 * ms // of the lease; its holder counts two thirds of it
	simWait = 250 * ms // for an answer

	// worstRate is how much faster or slower than real time a clock runs, at most.
	worstRate = 0.005
)

// world is nodes that grant to each other, in real time that none of them knows: their clocks have
// any offset and run at different rates.
type world struct {
	random *rand.Rand
	now    int64
	queue  events
	order  int
	nodes  []*simNode
	plan   *limit.Plan
	terms  Terms
	keys   []string
	faults bool

	journal []entry

	token  uint64 // of the newest lease
	holder *simNode
	until  int64 // of the lease

	admitted               []admission
	asked, messages, local int
}

// entry of the journal: admissions that the holder charged, or what it has out.
type entry struct {
	own string // "": a charge
	key string
	at  int64 // real
	n   uint64
}

// admission is one that was answered; it was made between the two times.
type admission struct {
	key           string
	before, after int64
	n             uint64
}

type event struct {
	at    int64
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func (w *world) after(delay int64, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + delay, w.order, do})
}

func (w *world) run(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// simNode is a node in one of its lives.
type simNode struct {
	w       *world
	name    string
	offset  int64
	rate    float64
	life    int
	stopped int64 // it does nothing until then
	cut     bool  // from all others, and the journal

	credits map[string]*Credit
	asking  map[string]bool
	waiting map[string][]func() // until the holder has answered somebody

	token uint64 // of its lease; 0: it does not hold
	lease int64  // by its clock
	books map[string]*held
	fresh []entry // not in the journal yet
	tells []func(ok bool)
}

// held is a key at its holder.
type held struct {
	book  Book
	state limit.State
}

func (n *simNode) clock() int64 { return n.offset + int64(float64(n.w.now)*n.rate) }

// at is a real time by the clock of n.
func (n *simNode) at(real int64) int64 { return n.offset + int64(float64(real)*n.rate) }

func (w *world) rare(one int) bool { return w.faults && w.random.IntN(one) == 0 }

func newWorld(seed uint64, nodes, keys int, l limit.Limit, faults bool) *world {
	plan, err := limit.New(l)
	if err != nil {
		panic(err)
	}
	w := &world{random: rand.New(rand.NewPCG(seed, 15)), plan: plan, terms: TermsOf(plan.Limit()), faults: faults, now: 1}
	for k := range keys {
		w.keys = append(w.keys, fmt.Sprint("k", k))
	}
	for i := range nodes {
		n := &simNode{w: w, name: fmt.Sprint("n", i)}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	w.after(0, w.lead)
	w.after(0, w.write)
	return w
}

// start begins a life with another clock.
func (n *simNode) start() {
	n.life++
	n.offset = n.w.random.Int64N(1e18)
	if interval := int64(n.w.plan.Interval()); n.w.plan.Limit().Algorithm == limit.Fixed {
		n.offset -= n.offset % interval // all see the multiples of T at the same time, at first
	}
	n.rate = 1
	if n.w.faults {
		n.rate = 1 + worstRate*(2*n.w.random.Float64()-1)
	}
	n.credits, n.asking, n.waiting, n.token, n.books, n.fresh, n.tells = map[string]*Credit{}, map[string]bool{}, map[string][]func(){}, 0, nil, nil, nil
	life := n.life
	var tick func()
	tick = func() {
		if n.life != life {
			return
		}
		n.tick()
		n.w.after(max(ms, int64(n.w.terms.Pace)/4), tick)
	}
	n.w.after(0, tick)
}

// do runs what a node does, once it is not stopped, in this life.
func (n *simNode) do(delay int64, what func()) {
	life := n.life
	n.w.after(delay, func() {
		switch {
		case n.life != life:
		case n.w.now < n.stopped:
			n.do(n.stopped-n.w.now, what)
		default:
			what()
		}
	})
}

// lead renews the lease, or gives it to another node once it has run out.
func (w *world) lead() {
	w.after(20*ms, w.lead)
	h := w.holder
	if h != nil && !h.cut && w.now >= h.stopped && h.token == w.token && w.now < w.until {
		h.lease, w.until = h.clock()+simTTL*2/3, w.now+simTTL
		return
	}
	if w.now < w.until {
		return
	}
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if n.cut || w.now < n.stopped {
		return
	}
	w.token++
	w.holder, w.until = n, w.now+simTTL
	n.take(w.token)
}

// take begins to hold: it knows what is in the journal.
func (n *simNode) take(token uint64) {
	w := n.w
	n.tell(false)
	n.fresh = nil
	n.token, n.lease, n.books = token, n.clock()+simTTL*2/3, map[string]*held{}
	outs := map[[2]string]entry{}
	for _, e := range w.journal {
		if e.own != "" {
			outs[[2]string{e.own, e.key}] = e
			continue
		}
		if at := n.at(e.at); n.clock()-at < int64(w.plan.Interval()) {
			w.plan.Charge(&n.heldOf(e.key).state, at, e.n)
		}
	}
	for holder, e := range outs {
		if until := n.at(e.at) + int64(w.terms.Held()); n.clock() < until {
			n.heldOf(e.key).book.Recover(e.n, until, holder[0] == n.name)
		}
	}
}

func (n *simNode) heldOf(key string) *held {
	if n.books[key] == nil {
		n.books[key] = &held{}
	}
	return n.books[key]
}

func (n *simNode) holds() bool { return n.token > 0 && n.clock() < n.lease }

// write has what the holders charged written: then it may be answered.
func (w *world) write() {
	delay := ms + w.random.Int64N(2*ms)
	if w.rare(20) {
		delay += w.random.Int64N(60 * ms)
	}
	w.after(delay, w.write)
	for _, n := range w.nodes {
		if n.cut || w.now < n.stopped || len(n.fresh)+len(n.tells) == 0 {
			continue
		}
		w.journal = append(w.journal, n.fresh...)
		n.fresh = nil
		n.tell(true)
	}
}

func (n *simNode) tell(ok bool) {
	tells := n.tells
	n.tells = nil
	for _, tell := range tells {
		tell(ok)
	}
}

// serve answers an Ask at the holder.
func (n *simNode) serve(from, key string, a Ask, answer func(Answer)) {
	if !n.holds() {
		return
	}
	w := n.w
	w.messages++
	now, token := n.clock(), n.token
	h := n.heldOf(key)
	l := Basis{Now: now, Node: from, Token: token, Terms: w.terms}
	charge := func(at int64, count uint64) {
		w.plan.Charge(&h.state, at, count)
		n.fresh = append(n.fresh, entry{"", key, w.now - int64(float64(now-at)/n.rate), count})
	}
	before := h.book.Own(now, w.terms)
	h.book.Settle(l, &a, charge)
	out := h.book.Out(now, w.terms)
	d := Decided{Allowed: true}
	if a.Need > 0 {
		if d.Allowed = w.plan.Peek(&h.state, now, 0).Remaining >= out+a.Need; d.Allowed {
			w.plan.Take(&h.state, now, a.Need)
			n.fresh = append(n.fresh, entry{"", key, w.now, a.Need})
		}
	}
	v := w.plan.Peek(&h.state, now, 0)
	d.Free, d.Reset = v.Remaining-min(out, v.Remaining), v.Reset
	if v.Remaining < w.plan.Limit().Burst {
		d.Wait = w.plan.Peek(&h.state, now, v.Remaining+1).RetryAfter
	}
	said := h.book.Grant(l, &a, d)
	own := h.book.Own(now, w.terms)
	if own > 0 || before > 0 {
		n.fresh = append(n.fresh, entry{n.name, key, w.now, own})
	}
	if own == 0 && (a.Need == 0 || !d.Allowed) {
		answer(said)
		return
	}
	n.tells = append(n.tells, func(ok bool) {
		if ok && n.holds() && n.token == token {
			answer(said)
		}
	})
}

// send delivers a message, or not, or twice.
func (w *world) send(from, to *simNode, what func()) {
	deliver := func() {
		delay := int64(0)
		if from != to {
			delay = ms/10 + w.random.Int64N(ms/2)
			if w.rare(10) {
				delay += w.random.Int64N(100 * ms)
			}
			if w.rare(200) {
				delay += w.random.Int64N(2000 * ms)
			}
		}
		to.do(delay, func() {
			if from == to || !to.cut && !from.cut {
				what()
			}
		})
	}
	if from != to && w.rare(20) {
		return
	}
	deliver()
	if from != to && w.rare(30) {
		deliver()
	}
}

// ask asks the holder, as far as the node knows of it. Others wait meanwhile.
func (n *simNode) ask(key string, need uint64, then func(ok bool)) {
	w, c := n.w, n.credits[key]
	to := w.holder
	if to == nil {
		then(false)
		return
	}
	sent := n.clock()
	a := c.Ask(sent, w.terms, need, uint64(len(n.waiting[key])))
	n.asking[key] = true
	over := false
	end := func(ok bool) {
		if over {
			return
		}
		over = true
		then(ok)
		n.asking[key] = false
		waiting := n.waiting[key]
		n.waiting[key] = nil
		for _, again := range waiting {
			again()
		}
	}
	n.do(simWait, func() { end(false) })
	w.send(n, to, func() {
		to.serve(n.name, key, a, func(said Answer) {
			w.send(to, n, func() {
				if over && w.random.IntN(2) == 0 {
					return // too late: nobody waits for it
				}
				if n.credits[key] != c {
					return
				}
				c.Answered(n.clock(), sent, w.terms, &a, &said)
				end(said.Allowed)
			})
		})
	})
}

// request is a client's, for some admissions of a key.
func (n *simNode) request(key string, count uint64) {
	if n.w.now < n.stopped {
		return
	}
	n.w.asked++
	if n.credits[key] == nil {
		n.credits[key] = NewCredit(n.w.random.Uint64())
	}
	n.credits[key].Note(n.clock(), n.w.terms, count)
	n.decide(key, count, n.w.now)
}

// decide decides a request that came at a time.
func (n *simNode) decide(key string, count uint64, before int64) {
	w, c, now := n.w, n.credits[key], n.clock()
	if c == nil || w.now-before > simWait {
		return
	}
	switch c.Take(now, w.terms, count) {
	case Admitted:
		w.local++
		if w.rare(8) {
			c.Undo(count)
		} else {
			w.admitted = append(w.admitted, admission{key, w.now, w.now, count})
		}
	case Denied:
		w.local++
	case Unknown:
		if n.asking[key] {
			n.waiting[key] = append(n.waiting[key], func() { n.decide(key, count, before) })
			return
		}
		n.ask(key, count, func(ok bool) {
			if ok {
				w.admitted = append(w.admitted, admission{key, before, w.now, count})
			}
		})
	}
}

// tick asks for what is due.
func (n *simNode) tick() {
	if n.w.now < n.stopped {
		return
	}
	now := n.clock()
	for _, key := range n.w.keys {
		c := n.credits[key]
		switch {
		case c == nil:
		case c.Idle(now, n.w.terms):
			delete(n.credits, key)
		case c.Due(now, n.w.terms) && !n.asking[key]:
			n.ask(key, 0, func(bool) {})
		}
	}
}

// fail does something to a node, and undoes it later.
func (w *world) fail() {
	w.after(ms+w.random.Int64N(800*ms), w.fail)
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if w.holder != nil && w.random.IntN(2) == 0 {
		n = w.holder
	}
	switch w.random.IntN(3) {
	case 0:
		n.start()
	case 1:
		n.stopped = w.now + w.random.Int64N(1500*ms)
	case 2:
		n.cut = true
		w.after(w.random.Int64N(1500*ms), func() { n.cut = false })
	}
}

// load has clients ask: now this node most, now that one.
func (w *world) load() {
	interval := int64(w.plan.Interval())
	burst := int(w.plan.Limit().Burst)
	favourite := w.nodes[w.random.IntN(len(w.nodes))]
	for range 1 + w.random.IntN(max(2, burst/2)) {
		n := favourite
		if w.random.IntN(3) == 0 {
			n = w.nodes[w.random.IntN(len(w.nodes))]
		}
		key, count := w.keys[w.random.IntN(len(w.keys))], uint64(1)
		if w.random.IntN(5) == 0 {
			count = 1 + w.random.Uint64N(uint64(max(1, burst/4)))
		}
		w.after(w.random.Int64N(interval/10+1), func() { n.request(key, count) })
	}
	w.after(w.random.Int64N(interval/8+ms), w.load)
}

// most is the most admissions of a key that were surely within an interval.
func (w *world) most(key string, interval int64) (most uint64) {
	var admissions []admission
	for _, a := range w.admitted {
		if a.key == key {
			admissions = append(admissions, a)
		}
	}
	slices.SortFunc(admissions, func(a, b admission) int { return int(a.after - b.after) })
	first := 0
	for i := range admissions {
		for admissions[first].after <= admissions[i].after-interval { // all before it are out too
			first++
		}
		n := uint64(0)
		for _, a := range admissions[first : i+1] {
			if a.before > admissions[i].after-interval {
				n += a.n
			}
		}
		most = max(most, n)
	}
	return most
}

// limits that a seed may be of.
func simLimit(r *rand.Rand) limit.Limit {
	l := limit.Limit{
		N:         []uint64{1, 3, 5, 16, 17, 40, 200}[r.IntN(7)],
		Per:       []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 20 * time.Second}[r.IntN(4)],
		Algorithm: limit.Algorithm(r.IntN(3)),
	}
	if r.IntN(3) == 0 {
		l.Algorithm = limit.Window
	}
	return l
}

// Whatever nodes, clocks and links do, no interval has more than its limit's worst case. `make
// sim-leased` runs many seeds.
func TestSimulation(t *testing.T) {
	t.Parallel()
	over, admissions, local := 0, 0, 0
	for seed := *simFirst; seed < *simFirst+uint64(*simSeeds); seed++ {
		l := simLimit(rand.New(rand.NewPCG(seed, 1)))
		w := newWorld(seed, 2+int(seed%4), 1+int(seed%2), l, true)
		w.after(0, w.load)
		w.after(0, w.fail)
		w.run(max(5*int64(w.plan.Interval()), 4000*ms))
		admissions += len(w.admitted)
		local += w.local
		allowed := l.N
		switch l.Algorithm {
		case limit.Fixed:
			allowed = 3 * l.N // around a multiple, which comes twice if the next holder's clock is behind
		case limit.GCRA:
			allowed = 2*l.N - 1
		}
		interval := int64(w.plan.Interval())
		interval -= interval / 50 // clocks that run too fast
		for _, key := range w.keys {
			if most := w.most(key, interval); most > allowed {
				over++
				t.Errorf("seed %d: %+v: %d admitted within %v: run it with -sim.first %d -sim.seeds 1", seed, l, most, w.plan.Interval(), seed)
			}
		}
	}
	t.Logf("%d seeds: %d admitted, %d decided locally, %d over", *simSeeds, admissions, local, over)
	if admissions == 0 || local == 0 {
		t.Error("nothing was admitted, or decided locally")
	}
}
