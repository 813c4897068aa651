package views

import (
	"context"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Nodes is the nodes that count together, what this one holds, and the regions, where it counts for one.
func Nodes(ctx context.Context, s *service.Service, c service.Caller) (api.NodesView, error) {
	cluster, err := s.Nodes(ctx, c)
	if err != nil {
		return api.NodesView{}, err
	}
	stats, err := s.Stats(c)
	if err != nil {
		return api.NodesView{}, err
	}
	view := api.NodesView{Cluster: cluster, Stats: stats}
	if s.Backend().Regions == nil {
		return view, nil
	}
	regions, err := s.Regions(c)
	view.Regions = &regions
	return view, err
}
