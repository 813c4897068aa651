package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

// Removal is what became of a node that was removed.
type Removal struct {
	Origins []string // its data directories, that nobody waits for any more
	Voter   bool     // it had a vote, and has it no more
	Streams []ClusterStream
}

// ClusterStream is one of JetStream's, with the nodes that keep it.
type ClusterStream struct {
	Name  string
	Nodes []string
}

var (
	// ErrUnknownNode is what a Cluster's Remove returns for a name that no node has.
	ErrUnknownNode = errors.New("no node of that name")
	// ErrNodeHere is what it returns for a node that is alive.
	ErrNodeHere = errors.New("the node is running")
)

// removeTime bounds the removal of a node: a leader may have to be elected first.
const removeTime = 20 * time.Second

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
		if s.cfg.Cluster == nil {
			return nil, newProblem(api.CodeNoCluster, "", "this server counts alone: there is no other node to remove")
		}
		ctx, cancel := context.WithTimeout(ctx, removeTime)
		defer cancel()
		removed, err := s.cfg.Cluster.Remove(ctx, in.Node)
		switch {
		case errors.Is(err, ErrUnknownNode):
			return nil, newProblem(api.CodeUnknownNode, "node", "no node is called "+clip(in.Node)+": GET /v1/cluster lists them")
		case errors.Is(err, ErrNodeHere):
			return nil, newProblem(api.CodeNodeHere, "node", err.Error())
		case err != nil:
			s.log.ErrorContext(ctx, "a node could not be removed", "node", in.Node, "error", err)
			return nil, newProblem(api.CodeNotRemoved, "", err.Error())
		}
		out := &removedOutput{api.RemovedAnswer{Node: in.Node, Origins: append([]string{}, removed.Origins...), Voter: removed.Voter, Streams: []api.ClusterStream{}}}
		for _, one := range removed.Streams {
			out.Body.Streams = append(out.Body.Streams, api.ClusterStream(one))
		}
		return out, nil
	})
}
