package admin

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// removeTime bounds the removal of a node: a leader may have to be elected first.
const removeTime = 20 * time.Second

// Remove permanently removes a dead node from the cluster. It takes up to 20 s.
func (s *Service) Remove(ctx context.Context, c caller.Caller, node string) (_ api.RemovedAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "remove node", node, err) }()
	var none api.RemovedAnswer
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	removed, err := s.members.remove(ctx, node)
	var refused *failure.Error
	switch {
	case errors.As(err, &refused):
		return none, refused
	case errors.Is(err, backend.ErrUnknownNode):
		return none, &failure.Error{Code: api.CodeUnknownNode, Field: "node", Message: "no node is called " + failure.Clip(node) + ": GET /v1/cluster lists them"}
	case errors.Is(err, backend.ErrNodeHere):
		return none, &failure.Error{Code: api.CodeNodeHere, Field: "node", Message: err.Error()}
	case err != nil:
		s.parts.Log.ErrorContext(ctx, "a node could not be removed", "node", node, "error", err)
		return none, &failure.Error{Code: api.CodeNotRemoved, Message: err.Error()}
	}
	answer := api.RemovedAnswer{Node: node, Origins: append([]string{}, removed.Origins...), Voter: removed.Voter, Streams: []api.ClusterStream{}}
	for _, one := range removed.Streams {
		answer.Streams = append(answer.Streams, api.ClusterStream(one))
	}
	return answer, nil
}
