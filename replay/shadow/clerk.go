package shadow

import "sync"

// clerk writes down what the judge decided: totals, and a record of each key. It has a
// goroutine of its own, so that a judge need not wait for it.
type clerk struct {
	accounts []*account // in order of application
	ledger   ledger
	writer   *deniedWriter // nil: none

	parts chan *part // from the judge
	done  parts      // for the routers
	ended sync.WaitGroup

	begun                      bool
	first, last                int64 // requests, Unix s
	requests, unmatched        uint64
	allowed, denied, undecided uint64
	late                       uint64 // lines
	latest                     int64  // s that a line was late at most
	stranger                   string // a key that no policy is for
	missed                     missed
	problem                    error // why the first undecided request is so
}

// clerkBehind is how many parts may wait for the clerk.
const clerkBehind = 4

// newClerk starts a clerk, which ends with close.
func newClerk(o *Options, accounts []*account, done parts) *clerk {
	c := &clerk{accounts: accounts, ledger: ledger{budget: o.Memory}, parts: make(chan *part, clerkBehind), done: done}
	if o.Denied != nil {
		c.writer = newDeniedWriter(o.Denied)
	}
	c.ended.Go(func() {
		for p := range c.parts {
			c.part(p)
			c.done.give(p)
		}
	})
	return c
}

// close waits until all is written down. The error is of the writer.
func (c *clerk) close() error {
	close(c.parts)
	c.ended.Wait()
	if c.writer == nil {
		return nil
	}
	return c.writer.Flush()
}

func (c *clerk) part(p *part) {
	c.unmatched += p.unmatched
	c.missed.add(p.missed)
	if c.stranger == "" {
		c.stranger = p.stranger
	}
	if c.problem == nil {
		c.problem = p.problem
	}
	from := 0
	for i := range p.asked {
		a := &p.asked[i]
		c.line(a, p.questions[from:a.questions])
		from = a.questions
	}
}

func (c *clerk) line(a *asked, questions []question) {
	c.time(a)
	c.requests += a.n
	switch {
	case a.undecided:
		c.undecided += a.n
		for i := range questions {
			questions[i].rule.account.undecide(a.n * questions[i].times)
		}
		return
	case len(questions) == 0:
		return
	}
	c.allowed += a.admitted
	c.denied += a.n - a.admitted
	for i := range questions {
		c.settle(&questions[i], a)
	}
	c.ledger.keep(c.accounts, a.now)
}

// time notes when a line was decided.
func (c *clerk) time(a *asked) {
	if !c.begun {
		c.begun, c.first = true, a.at
		for _, account := range c.accounts {
			account.asked, account.timeline = newTimeline(a.at), newTimeline(a.at)
		}
	}
	if a.at < a.now {
		c.late++
		c.latest = max(c.latest, a.now-a.at)
	}
	c.first = min(c.first, a.at)
	c.last = a.now
}

// settle notes what was decided of one limit.
func (c *clerk) settle(q *question, a *asked) {
	c.ledger.find(q.check)
	account, r := q.rule.account, q.record
	before := cap(r.series)
	account.ask(r, a.now, a.n*q.times)
	c.ledger.bytes += int64(cap(r.series) - before)
	elsewhere := uint64(0)
	if refused := a.n - a.admitted; q.denied < refused {
		elsewhere = refused - q.denied
	}
	account.elsewhere += elsewhere * q.times
	account.allowed += (a.n - q.denied - elsewhere) * q.times
	if q.denied == 0 {
		return
	}
	account.deny(r, a.now, q.denied*q.times)
	if c.writer != nil {
		c.writer.write(a.at, q)
	}
}
