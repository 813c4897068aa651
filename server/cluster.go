package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type clusterOutput struct{ Body api.ClusterAnswer }

func (s *Server) registerCluster(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "cluster", Method: http.MethodGet, Path: "/v1/cluster",
		Summary:     "The nodes that count together, as this one sees them",
		Description: "Servers that do not answer are left out, so that this takes up to a second while one is away; `problems` says what could not be found out. A server alone has `mode` alone or ephemeral, and no nodes.",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*clusterOutput, error) {
		return &clusterOutput{s.service.Nodes(ctx)}, nil
	})
}
