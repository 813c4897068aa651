package admin

import (
	"context"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/failure"
)

// members are the nodes that count together with this one: those of a Cluster (clustered), or none (alone). New chooses once.
type members interface {
	addNodes(context.Context, *api.ClusterAnswer)
	remove(ctx context.Context, node string) (backend.Removal, error)
}

type alone struct{}

func (alone) addNodes(context.Context, *api.ClusterAnswer) {}

func (alone) remove(context.Context, string) (backend.Removal, error) {
	return backend.Removal{}, &failure.Error{Code: api.CodeNoCluster, Message: "this server counts alone: there is no other node to remove"}
}

type clustered struct {
	s       *Service
	cluster backend.Cluster
}

func (c *clustered) remove(ctx context.Context, node string) (backend.Removal, error) {
	return c.cluster.Remove(ctx, node)
}
