package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type statsOutput struct{ Body api.StatsAnswer }

func (s *Server) registerStats(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "What the server holds and what it dropped",
	}, []api.Code{api.CodeClosed}, func(context.Context, *struct{}) (*statsOutput, error) {
		return &statsOutput{s.statsAnswer()}, nil
	})
}

func (s *Server) statsAnswer() api.StatsAnswer {
	st := s.engine.Stats()
	answer := api.StatsAnswer{
		Version: s.cfg.Version, UptimeS: int64(time.Since(s.started) / time.Second), Now: api.Time{Time: s.now()},
		Hits: st.Hits, Late: st.Late, TooLate: st.TooLate, TooFarAhead: st.TooFarAhead, Ahead: st.Ahead,
		Keys: st.Keys, HotKeys: st.HotKeys,
		EvictedKeys: st.EvictedKeys, EvictedHits: st.EvictedHits, ExpiredKeys: st.ExpiredKeys,
		MemoryBytes: st.Bytes, MemoryBudget: st.MemoryBudget, Partitions: st.Partitions,
		LimitStates: st.LimitStates, LimitBytes: st.LimitBytes, LimitRefused: st.LimitRefused,
		Durable: s.cfg.Journal != nil, Waiting: st.Waiting, Alarms: s.alarms(),
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
