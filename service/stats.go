package service

import (
	"time"

	"github.com/weir-counter/weir/api"
)

// Stats is what the server holds and what it dropped.
func (s *Service) Stats() api.StatsAnswer {
	st := s.engine.Stats()
	answer := api.StatsAnswer{
		Version: s.cfg.Version, UptimeS: int64(time.Since(s.started) / time.Second), Now: api.Time{Time: s.Now()},
		Hits: st.Hits, Late: st.Late, TooLate: st.TooLate, TooFarAhead: st.TooFarAhead, Ahead: st.Ahead,
		Keys: st.Keys, HotKeys: st.HotKeys,
		EvictedKeys: st.EvictedKeys, EvictedHits: st.EvictedHits, ExpiredKeys: st.ExpiredKeys,
		MemoryBytes: st.Bytes, MemoryBudget: st.MemoryBudget, Partitions: st.Partitions,
		LimitStates: st.LimitStates, LimitBytes: st.LimitBytes, LimitRefused: st.LimitRefused,
		Durable: s.cfg.Journal != nil, Waiting: st.Waiting, Alarms: s.Alarms(),
	}
	if answer.Durable {
		j := s.cfg.Journal.Stats()
		answer.Journal = &api.JournalStats{
			Epoch: j.Epoch, Flushes: j.Flushes, Bytes: j.Bytes, FlushSeconds: j.LastFlush.Seconds(),
			Failures: j.Failures, Failing: j.Failing, SnapshotRounds: j.Rounds,
			ReplayedFlushes: j.Replayed, LossyFindings: j.Lossy, HarmlessFindings: j.Harmless,
		}
	}
	if !st.Newest.IsZero() {
		answer.Newest = &api.Time{Time: st.Newest}
	}
	return answer
}
