package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
)

type topQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
}

type topKey struct {
	Key string `json:"key"`
	Bounds
}

type topAnswer struct {
	WindowS int64    `json:"window_s" doc:"The window in seconds."`
	At      unixTime `json:"at" doc:"The end of the window."`
	Prefix  string   `json:"prefix"`
	Keys    []topKey `json:"keys" nullable:"false" doc:"Most hits first."`
	Freshness
}

type topOutput struct{ Body topAnswer }

func (s *Server) registerTop(api huma.API) {
	ask(s, api, huma.Operation{
		OperationID: "top", Method: http.MethodGet, Path: "/v1/top",
		Summary:     "List the keys with the most hits in a window",
		Description: "The reserved key `*` is not listed, and keys that begin with `limit:` only when `prefix` does.",
	}, []weir.Code{weir.CodeInvalidWindow, weir.CodeInvalidTime, weir.CodeNotHeld, weir.CodeNotFresh, weir.CodeClosed},
		func(ctx context.Context, q *topQuestion) (*topOutput, error) {
			answer, err := s.top(ctx, q)
			return &topOutput{answer}, err
		})
}

func (s *Server) top(ctx context.Context, q *topQuestion) (topAnswer, error) {
	var none topAnswer
	w, err := windowParam("window", q.Window)
	if err != nil {
		return none, err
	}
	at, err := timeParam("at", q.At)
	if err != nil {
		return none, err
	}
	asked, err := s.await(ctx, q.FreshParam)
	if err != nil {
		return none, err
	}
	at = asked.at(at)
	keys, fresh, err := asked.answers.Top(ctx, at, w, q.N, q.Prefix)
	if err != nil {
		return none, asProblem(err)
	}
	fresh = asked.fresh(fresh)
	answer := topAnswer{int64(w / time.Second), unixTime{at}, q.Prefix, make([]topKey, len(keys)), fresh.answer()}
	for i, k := range keys {
		answer.Keys[i] = topKey{k.Key, boundsOf(k.Count, fresh)}
	}
	return answer, nil
}
