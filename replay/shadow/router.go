package shadow

import (
	"time"

	"github.com/weir-counter/weir/policy/admit"
)

// routesMost is how many keys a router knows at once: some 10 MiB of them.
const routesMost = 1 << 16

// router finds out which limits the keys of its lines have, one for each worker. Logs
// repeat their keys, so it asks the policies once for most of them.
type router struct {
	accounts map[string]*account
	live     *admit.Live
	decision admit.Decision
	routes   map[string]*route
	parts    parts
	part     *part
}

// route is the limits of a key. Routers make it; the clerk alone fills the records in.
type route struct {
	checks []check
	err    error    // of a key that the policies refuse
	first  [1]check // where checks begins: most keys have one limit
	near   string   // without checks: the keys that it would fit, but for a : or /
}

// check is a limit and the key that it counts.
type check struct {
	rule   *rule
	key    string
	record *record // the clerk's; nil before the first request
}

// part is the requests of a part of the log. It goes round: router, judge, clerk, router.
type part struct {
	asked     []asked
	routes    []*route   // of all requests, one after the other
	questions []question // of all requests that have a limit, as the judge brought them together

	unmatched uint64 // requests without a key that a policy is for
	stranger  string // a key of such a one
	problem   error  // why the first undecided one is so
	missed    missed
}

// missed are keys that no policy is for, though one was meant to be.
type missed struct {
	times uint64
	key   string // one of them
	keys  string // of the policy
}

func (m *missed) add(more missed) {
	if m.times += more.times; m.key == "" {
		m.key, m.keys = more.key, more.keys
	}
}

// asked is one line: n requests. Its routes and questions end at a place, where those of
// the next line begin.
type asked struct {
	at        int64 // Unix s
	n         uint64
	routes    int
	questions int

	// What the judge decided.
	now       int64 // Unix s: when
	admitted  uint64
	undecided bool
}

// question is what a line asks of one limit and key: once for each of its keys that
// the limit counts there.
type question struct {
	*check
	times  uint64
	denied uint64        // requests of the line
	retry  time.Duration // of a denial, if somebody wants to know
}

func newRouter(j *judge) *router {
	return &router{accounts: j.byName, live: j.live, routes: map[string]*route{}, parts: j.parts, part: j.parts.take()}
}

// Line is of replay.LineWorker.
func (r *router) Line(at int64, n uint64, keys [][]byte) error {
	p := r.part
	before := len(p.routes)
	for _, key := range keys {
		to, ok := r.routes[string(key)]
		if !ok {
			to = r.find(string(key))
		}
		if len(to.checks) > 0 || to.err != nil {
			p.routes = append(p.routes, to)
			continue
		}
		if p.stranger == "" {
			p.stranger = string(key)
		}
		if to.near != "" {
			p.missed.add(missed{n, string(key), to.near})
		}
	}
	if len(p.routes) == before {
		p.unmatched += n
	}
	p.asked = append(p.asked, asked{at: at, n: n, routes: len(p.routes)})
	return nil
}

// Part is of replay.LineWorker.
func (r *router) Part() any {
	done := r.part
	r.part = r.parts.take()
	return done
}

// find asks the policies which limits a key has.
func (r *router) find(key string) *route {
	if len(r.routes) >= routesMost {
		clear(r.routes)
	}
	to := &route{}
	to.checks = to.first[:0]
	r.routes[key] = to
	if to.err = r.live.Peek([]admit.Request{{Key: key}}, &r.decision); to.err != nil {
		return to
	}
	if r.decision.Unmatched {
		near, _ := r.live.Set().Near(key)
		to.near = near.Keys
	}
	for _, result := range r.decision.Results {
		a := r.accounts[result.Name]
		to.checks = append(to.checks, check{rule: a.rules[result.Limit], key: result.Key})
	}
	return to
}
