package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
)

type clusterOutput struct{ Body api.ClusterAnswer }

func (s *Server) registerCluster(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "cluster", Method: http.MethodGet, Path: "/v1/cluster",
		Summary:     "The nodes that count together, as this one sees them",
		Description: "Servers that do not answer are left out, so that this takes up to a second while one is away; `problems` says what could not be found out. A server alone has `mode` alone or ephemeral, and no nodes.",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*clusterOutput, error) {
		answer, err := s.service.Nodes(ctx, callerOf(ctx))
		return &clusterOutput{answer}, problem.OrNil(err)
	})
}

type removeInput struct {
	Node string `path:"node" maxLength:"64" doc:"Its name."`
}

type removedOutput struct{ Body api.RemovedAnswer }

func (s *Server) registerRemove(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "removeNode", Method: http.MethodDelete, Path: "/v1/cluster/nodes/{node}",
		Summary: "Remove a node that never comes back",
		Description: "Quorums are counted without it, its replicas move to a node that has none, and no answer waits for it; its hits stay counted. " +
			"One that is alive is refused: stop it before. It takes up to 20 s, and can be asked for again.",
	}, []api.Code{api.CodeUnknownNode, api.CodeNodeHere, api.CodeNoCluster, api.CodeNotRemoved}, func(ctx context.Context, in *removeInput) (*removedOutput, error) {
		answer, err := s.service.Remove(ctx, callerOf(ctx), in.Node)
		return &removedOutput{answer}, problem.OrNil(err)
	})
}
