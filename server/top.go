package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type topQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
}

type topOutput struct{ Body api.TopAnswer }

func (s *Server) registerTop(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "top", Method: http.MethodGet, Path: "/v1/top",
		Summary:     "List the keys with the most hits in a window",
		Description: "The reserved key `*` is not listed, and keys that begin with `limit:` only when `prefix` does.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *topQuestion) (*topOutput, error) {
			answer, err := s.top(ctx, q)
			return &topOutput{answer}, err
		})
}

func (s *Server) top(ctx context.Context, q *topQuestion) (api.TopAnswer, error) {
	var none api.TopAnswer
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
	answer := api.TopAnswer{
		WindowSeconds: int64(w / time.Second), At: api.Time{Time: at}, Prefix: q.Prefix,
		Keys: make([]api.TopKey, len(keys)), Freshness: fresh.answer(),
	}
	for i, k := range keys {
		answer.Keys[i] = api.TopKey{Key: k.Key, Bounds: boundsOf(k.Count, fresh)}
	}
	return answer, nil
}
