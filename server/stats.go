package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
)

type statsOutput struct{ Body api.StatsAnswer }

func (s *Server) registerStats(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "What the server holds and what it dropped",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*statsOutput, error) {
		answer, err := s.service.Stats(callerOf(ctx))
		return &statsOutput{answer}, problem.OrNil(err)
	})
}
