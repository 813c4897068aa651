package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// Freshness says how much of the newest hits is in an answer. Like Bounds it is
// embedded in answers.
type Freshness struct {
	AsOf unixTime `json:"as_of" doc:"All hits that any node took until then are counted in this answer. A server alone has all: it says now."`
	Late []late   `json:"late,omitempty" doc:"Nodes that were not heard of for more than 3 s: the answer is a lower bound of what all have counted. Absent when there are none."`
}

type late struct {
	Node  string   `json:"node"`
	Since unixTime `json:"since" doc:"Its hits until then are counted in this answer."`
}

// millis cuts a time to milliseconds: what was complete then, was before.
func millis(t time.Time) unixTime { return unixTime{t.Truncate(time.Millisecond)} }

// wall is the engine's time of day, also where it counts by event time.
func (s *Server) wall() time.Time {
	if now := s.engine.Config().Now; now != nil {
		return now()
	}
	return time.Now()
}

// freshnessEvery is how old a Freshness may be: it only says too little.
const freshnessEvery = 50 * time.Millisecond

// freshCache keeps the freshness of the cluster, for many questions at once. The
// journal may be busy with what it missed: then one question waits for it, and
// the others say what was known before.
type freshCache struct {
	asking sync.Mutex
	last   atomic.Pointer[freshEntry]
}

type freshEntry struct {
	value Fresh
	asked time.Time
}

func (c *freshCache) get(ask func() Fresh) Fresh {
	last := c.last.Load()
	if last != nil && (time.Since(last.asked) < freshnessEvery || !c.asking.TryLock()) {
		return last.value
	}
	if last == nil {
		c.asking.Lock()
	}
	defer c.asking.Unlock()
	asked := time.Now()
	value := ask()
	c.last.Store(&freshEntry{value, asked})
	return value
}

// fresh is asked for before what it is said of.
func (s *Server) fresh() Fresh {
	if s.cfg.Cluster == nil {
		return Fresh{AsOf: s.wall()}
	}
	return s.lastFresh.get(func() Fresh {
		asOf, silent := s.cfg.Cluster.Freshness()
		return Fresh{asOf, silent}
	})
}

// freshness is that of this node.
func (s *Server) freshness() Freshness { return s.fresh().answer() }
