// Package admin is what operators ask of a server and do to it: figures, the nodes of its cluster and its regions, keys and
// nodes removed, backups.
package admin

import (
	"log/slog"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/health"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/sources"
	"github.com/weir-counter/weir/service/storage"
)

// Parts are what a Service works with. All but History, Regions and Cluster must be given.
type Parts struct {
	Engine  *weir.Engine
	Gate    *access.Gate
	Sources *sources.Sources
	Storage storage.Storage
	Pools   *pools.Pools
	Health  *health.Service
	History backend.History // nil: there are windows only
	Regions backend.Regions // nil: the server counts for none
	Cluster backend.Cluster // nil: the server counts alone
	Version string
	Log     *slog.Logger
}

// Service answers operators.
type Service struct {
	parts   Parts
	members members
	started time.Time
}

// New is a Service of parts.
func New(p Parts) *Service {
	s := &Service{parts: p, members: alone{}, started: time.Now()}
	if p.Cluster != nil {
		s.members = &clustered{s, p.Cluster}
	}
	return s
}
