package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type removeInput struct {
	Node string `path:"node" maxLength:"64" doc:"Its name."`
}

type removedOutput struct{ Body api.RemovedAnswer }

func (s *Server) registerRemove(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "removeNode", Method: http.MethodDelete, Path: "/v1/cluster/nodes/{node}",
		Summary: "Remove a node that never comes back",
		Description: "Quorums are counted without it, its replicas move to a node that has none, and no answer waits for it; its hits stay counted. " +
			"One that is alive is refused: stop it before. It takes up to 20 s, and can be asked for again.",
	}, []api.Code{api.CodeUnknownNode, api.CodeNodeHere, api.CodeNoCluster, api.CodeNotRemoved}, func(ctx context.Context, in *removeInput) (*removedOutput, error) {
		answer, err := s.service.Remove(ctx, in.Node)
		return &removedOutput{answer}, orProblem(err)
	})
}
