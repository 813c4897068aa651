package admin

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// Nodes is the nodes that count together, as this one sees them. It takes up to a second
// while one of them is away.
func (s *Service) Nodes(ctx context.Context, c access.Caller) (api.ClusterAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.ClusterAnswer{}, err
	}
	a := api.ClusterAnswer{
		Partitions: s.parts.Engine.Config().Partitions,
		Nodes:      []api.ClusterNode{}, Servers: []api.ClusterServer{}, Routes: []api.ClusterRoute{}, Problems: []string{}, Alarms: s.parts.Health.Alarms(),
	}
	a.Correction, a.LimitBehind = s.parts.Engine.ClockCorrection().Seconds(), s.parts.Engine.LimitClockBehind().Seconds()
	s.parts.Storage.AddNodes(ctx, &a)
	a.Now, a.Freshness = api.Millis(s.parts.Sources.Wall()), s.parts.Sources.Freshness() // answers took their time
	return a, nil
}

// removeTime bounds the removal of a node: a leader may have to be elected first.
const removeTime = 20 * time.Second

// Remove permanently removes a dead node from the cluster. It takes up to 20 s.
func (s *Service) Remove(ctx context.Context, c access.Caller, node string) (_ api.RemovedAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "remove node", node, err) }()
	var none api.RemovedAnswer
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if s.parts.Cluster == nil {
		return none, &api.Error{Code: api.CodeNoCluster, Message: "this server counts alone: there is no other node to remove"}
	}
	removed, err := s.parts.Cluster.Remove(ctx, node)
	if err != nil {
		return none, request.Explain(ctx, s.parts.Log, err, &api.Error{Code: api.CodeNotRemoved, Message: err.Error()}, "a node could not be removed", "node", node)
	}
	return removed, nil
}

// errNoRegion answers what only a server can that counts for a region.
var errNoRegion = &api.Error{Code: api.CodeInvalidParameter, Message: "this server counts for no region: start it with --region"}

// Regions are those that count together, as this node sees them.
func (s *Service) Regions(c access.Caller) (a api.RegionsAnswer, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return a, err
	}
	from := s.parts.Regions
	if from == nil {
		return a, errNoRegion
	}
	a = from.Status()
	a.Now, a.Alarms = api.Millis(s.parts.Sources.Wall()), append([]api.Alarm{}, from.Alarms()...)
	return a, nil
}

// Forget drops all hits of a region that is gone for good, here and wherever links lead.
func (s *Service) Forget(ctx context.Context, c access.Caller, region string) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "forget region", region, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return err
	}
	if s.parts.Regions == nil {
		return errNoRegion
	}
	return request.Explain(ctx, s.parts.Log, s.parts.Regions.Forget(ctx, region),
		&api.Error{Code: api.CodeStopping, Message: "the region was not forgotten: ask again; the server's log says why"},
		"a region was not forgotten", "region", region)
}

// FeedRegion is the name of this region for one that pulls from it; it fails where that may not.
func (s *Service) FeedRegion(c access.Caller) (name string, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return "", err
	}
	if s.parts.Regions == nil {
		return "", errNoRegion
	}
	return s.parts.Regions.Region(), nil
}

// Feed sends a region what it has not, and what comes, until ctx is done, the caller may not read any more, or the server stops.
func (s *Service) Feed(ctx context.Context, c access.Caller, as, have, begun string, send func(frames []byte) error, flush func() error) error {
	return s.parts.Regions.Feed(ctx, as, have, begun, send, func() error {
		if _, err := s.parts.Gate.Identity(c); err != nil {
			return err
		}
		return flush()
	})
}
