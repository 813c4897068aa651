package views

import (
	"context"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Nodes is the nodes that count together, and what this one holds.
func Nodes(ctx context.Context, s *service.Service, c service.Caller) (api.NodesView, error) {
	cluster, err := s.Nodes(ctx, c)
	if err != nil {
		return api.NodesView{}, err
	}
	stats, err := s.Stats(c)
	return api.NodesView{Cluster: cluster, Stats: stats}, err
}
