package server

import "time"

// Freshness says how much of the newest hits is in an answer. Like Bounds it is
// embedded in answers.
type Freshness struct {
	AsOf unixTime `json:"as_of" doc:"All hits that any node took until then are counted in this answer. A server alone has all: it says now."`
	Late []late   `json:"late,omitempty" doc:"Nodes that were not heard of for more than 3 s: the answer is a lower bound of what all have counted, and has no upper one. Absent when there are none."`
}

type late struct {
	Node  string   `json:"node"`
	Since unixTime `json:"since" doc:"Its hits until then are counted in this answer."`
}

// millis cuts a time to milliseconds: what was complete then, was before.
func millis(t time.Time) unixTime { return unixTime{t.Truncate(time.Millisecond)} }

// wall is the engine's time of day, also where it counts by event time.
func (s *Server) wall() time.Time { return s.engine.Wall() }

// freshnessEvery is how old a Freshness may be: it only says too little. The journal may
// be busy with what it missed: then one question waits for it, and not all.
const freshnessEvery = 50 * time.Millisecond

// fresh is asked for before what it is said of.
func (s *Server) fresh() Fresh {
	if s.cfg.Cluster == nil {
		return Fresh{AsOf: s.wall()}
	}
	return s.lastFresh.Get(freshnessEvery, func() Fresh {
		asOf, silent := s.cfg.Cluster.Freshness()
		return Fresh{asOf, silent}
	})
}

// freshness is that of this node.
func (s *Server) freshness() Freshness { return s.fresh().answer() }
