package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
)

type statsAnswer struct {
	Version      string    `json:"version"`
	UptimeS      int64     `json:"uptime_s" doc:"Whole seconds since the start."`
	Now          unixTime  `json:"now" doc:"What questions without a time are asked at."`
	Hits         uint64    `json:"hits" doc:"Hits counted, late ones included."`
	Late         uint64    `json:"late" doc:"Hits counted that were older than the newest of their key."`
	TooLate      uint64    `json:"too_late" doc:"Hits not counted: older than the retention."`
	TooFarAhead  uint64    `json:"too_far_ahead" doc:"Hits refused: too far in the future."`
	Newest       *unixTime `json:"newest,omitempty" doc:"The newest hit; absent when there is none."`
	Keys         int       `json:"keys"`
	HotKeys      int       `json:"hot_keys" doc:"Keys that keep slots instead of single hits."`
	EvictedKeys  uint64    `json:"evicted_keys" doc:"Keys dropped to keep the memory budget."`
	EvictedHits  uint64    `json:"evicted_hits" doc:"Hits that left with them."`
	ExpiredKeys  uint64    `json:"expired_keys" doc:"Keys dropped because all their hits were older than the retention."`
	MemoryBytes  int64     `json:"memory_bytes" doc:"Memory of the keys, as the budget counts it."`
	MemoryBudget int64     `json:"memory_budget_bytes"`
	Partitions   int       `json:"partitions"`
}

type statsOutput struct{ Body statsAnswer }

func (s *Server) registerStats(api huma.API) {
	ask(s, api, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "What the server holds and what it dropped",
	}, []weir.Code{weir.CodeClosed}, func(context.Context, *struct{}) (*statsOutput, error) {
		return &statsOutput{s.statsAnswer()}, nil
	})
}

func (s *Server) statsAnswer() statsAnswer {
	st := s.engine.Stats()
	answer := statsAnswer{
		Version: s.cfg.Version, UptimeS: int64(time.Since(s.started) / time.Second), Now: unixTime{s.now()},
		Hits: st.Hits, Late: st.Late, TooLate: st.TooLate, TooFarAhead: st.TooFarAhead,
		Keys: st.Keys, HotKeys: st.HotKeys,
		EvictedKeys: st.EvictedKeys, EvictedHits: st.EvictedHits, ExpiredKeys: st.ExpiredKeys,
		MemoryBytes: st.Bytes, MemoryBudget: st.MemoryBudget, Partitions: st.Partitions,
	}
	if !st.Newest.IsZero() {
		answer.Newest = &unixTime{st.Newest}
	}
	return answer
}
