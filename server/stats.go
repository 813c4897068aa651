package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type statsOutput struct{ Body api.StatsAnswer }

func (s *Server) registerStats(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "What the server holds and what it dropped",
	}, []api.Code{api.CodeClosed}, func(context.Context, *struct{}) (*statsOutput, error) {
		return &statsOutput{s.service.Stats()}, nil
	})
}
