package service

import (
	"time"

	"github.com/weir-counter/weir/api"
)

// wall is the engine's time of day, also where it counts by event time.
func (s *Service) wall() time.Time { return s.engine.Replication().Wall() }

// freshnessEvery is how old a Freshness may be: it only says too little. The journal may
// be busy with what it missed: then one question waits for it, and not all.
const freshnessEvery = 50 * time.Millisecond

// fresh is asked for before what it is said of.
func (s *Service) fresh() Fresh {
	if s.cfg.Cluster == nil {
		return Fresh{AsOf: s.wall()}
	}
	return s.lastFresh.Get(freshnessEvery, func() Fresh {
		asOf, silent := s.cfg.Cluster.Freshness()
		return Fresh{asOf, silent}
	})
}

// Freshness is that of this node.
func (s *Service) Freshness() api.Freshness { return s.fresh().answer() }
