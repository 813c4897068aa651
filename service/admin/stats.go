package admin

import (
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
)

// Stats is what the server holds and what it dropped.
func (s *Service) Stats(c caller.Caller) (api.StatsAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.StatsAnswer{}, err
	}
	st := s.parts.Engine.Stats()
	answer := api.StatsAnswer{
		Version: s.parts.Version, UptimeS: int64(time.Since(s.started) / time.Second), Now: api.Time{Time: s.parts.Sources.Now()},
		Hits: st.Hits, Late: st.Late, TooLate: st.TooLate, ForHistory: st.ForHistory, TooFarAhead: st.TooFarAhead, Quarantined: st.Quarantined,
		Keys: st.Keys, HotKeys: st.HotKeys,
		EvictedKeys: st.EvictedKeys, EvictedHits: st.EvictedHits, ExpiredKeys: st.ExpiredKeys,
		MemoryBytes: st.Bytes, MemoryBudget: st.MemoryBudget, Partitions: st.Partitions,
		LimitStates: st.LimitStates, LimitBytes: st.LimitBytes, LimitRefused: st.LimitRefused,
		Waiting: st.Waiting, Alarms: s.parts.Health.Alarms(),
	}
	s.parts.Storage.AddStats(&answer)
	if !st.Newest.IsZero() {
		answer.Newest = &api.Time{Time: st.Newest}
	}
	return answer, nil
}
