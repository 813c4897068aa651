package pageviews

import (
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// maxLimited bounds the states of a limiter, in two generations of this size. Should more clients come within a period, the
// oldest are forgotten and may begin anew.
const maxLimited = 50_000

// limiter limits each of many clients, in memory alone: nothing of a visitor gets to the disk.
type limiter struct {
	plan  *limit.Plan
	start time.Time

	mu          sync.Mutex
	now, before map[uint64]limit.State
}

func newLimiter(n, burst uint64, per time.Duration) *limiter {
	plan, err := limit.New(limit.Limit{N: n, Per: per, Burst: burst, Algorithm: limit.GCRA})
	if err != nil {
		panic(err) // the numbers are below
	}
	return &limiter{plan: plan, start: time.Now(), now: map[uint64]limit.State{}}
}

func (l *limiter) allow(client uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, known := l.now[client]
	if !known {
		state = l.before[client]
		if len(l.now) >= maxLimited {
			l.before, l.now = l.now, map[uint64]limit.State{}
		}
	}
	verdict := l.plan.Take(&state, int64(time.Since(l.start)), 1)
	l.now[client] = state
	return verdict.Allowed
}

// names are the keys of a site that begin alike. Their number is bounded.
type names struct {
	prefix string
	most   int

	mu    sync.Mutex
	known map[string]struct{} // nil: not read yet
	read  time.Time
}

// rereadAfter is how long a full list of names is kept: names whose retention is over give way to others.
const rereadAfter = time.Hour

// key is the key of a name, or of (other) where there are too many names, or may says that the client has made too many.
func (n *names) key(e *engine.Engine, name string, may func() bool) string {
	key := n.prefix + name
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= n.most && time.Since(n.read) > rereadAfter {
		n.known, n.read = map[string]struct{}{}, time.Now()
		if there, err := e.Keys(n.prefix, "", n.most); err == nil { // else other nodes have some: the bound is this node's
			for _, key := range there {
				n.known[key] = struct{}{}
			}
		}
	}
	if _, known := n.known[key]; !known {
		if len(n.known) >= n.most || !may() {
			return n.prefix + "(other)"
		}
		n.known[key] = struct{}{}
	}
	return key
}
