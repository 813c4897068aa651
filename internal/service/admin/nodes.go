package admin

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/backend"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// Nodes is the nodes that count together, as this one sees them. It takes up to a second
// while one of them is away.
func (s *Service) Nodes(ctx context.Context, c access.Caller) (api.ClusterAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.ClusterAnswer{}, err
	}
	a := api.ClusterAnswer{
		Now: api.Millis(s.parts.Sources.Wall()), Freshness: s.parts.Sources.Freshness(), Partitions: s.parts.Engine.Config().Partitions,
		Nodes: []api.ClusterNode{}, Servers: []api.ClusterServer{}, Routes: []api.ClusterRoute{}, Problems: []string{}, Alarms: s.parts.Health.Alarms(),
	}
	a.Correction, a.LimitBehind = replication.Of(s.parts.Engine).ClockCorrection().Seconds(), replication.Of(s.parts.Engine).LimitClockBehind().Seconds()
	s.parts.Storage.AddNodes(&a)
	s.members.addNodes(ctx, &a)
	return a, nil
}

// addNodes asks for the state of the servers and the clocks side by side.
func (c *clustered) addNodes(ctx context.Context, a *api.ClusterAnswer) {
	s := c.s
	skews := make(chan map[string]backend.Skew, 1)
	go func() { skews <- c.cluster.Skews(ctx) }()
	st := c.cluster.Status(ctx)
	a.Mode, a.Cluster, a.Node, a.Size, a.Leader, a.SnapshotsBy = st.Mode, st.Cluster, st.Node, st.Size, st.Leader, st.SnapshotsBy
	if a.Journal != nil {
		a.Journal.First, a.Journal.Last, a.Journal.Bytes = st.First, st.Last, max(st.Bytes, a.Journal.Bytes)
	}
	for _, one := range st.Servers {
		a.Servers = append(a.Servers, api.ClusterServer{Name: one.Name, Version: one.Version, JetStream: one.JetStream, RTTS: one.RTT.Seconds()})
	}
	for _, r := range st.Routes {
		a.Routes = append(a.Routes, api.ClusterRoute{Node: r.Node, Addr: r.Addr, RTTS: r.RTT.Seconds(), PendingBytes: r.Pending})
	}
	a.Problems = append(a.Problems, st.Problems...)
	a.Replicas, a.Unheld = st.Replicas, c.cluster.Unheld()
	clocks, now := <-skews, time.Now()
	a.Now, a.Freshness = api.Millis(s.parts.Sources.Wall()), s.parts.Sources.Freshness() // answers took their time
	for _, n := range c.cluster.Nodes() {
		node := api.ClusterNode{
			Node: n.Name, Origin: n.Origin, Epoch: n.Epoch, Self: n.Self, Held: n.Held, Left: n.Left, Late: n.Late, Why: n.Why,
			AsOf: api.Millis(n.AsOf), Heard: api.Millis(n.Heard), LagS: n.Lag(now),
		}
		if skew, ok := clocks[n.Origin]; ok {
			ahead, wrong := skew.Ahead.Seconds(), skew.Error.Seconds()
			node.SkewS, node.SkewErrorS = &ahead, &wrong
		}
		a.Nodes = append(a.Nodes, node)
	}
}

// members are the nodes that count together with this one: those of a Cluster (clustered), or none (alone). New chooses once.
type members interface {
	addNodes(context.Context, *api.ClusterAnswer)
	remove(ctx context.Context, node string) (backend.Removal, error)
}

type alone struct{}

func (alone) addNodes(context.Context, *api.ClusterAnswer) {}

func (alone) remove(context.Context, string) (backend.Removal, error) {
	return backend.Removal{}, &request.Error{Code: api.CodeNoCluster, Message: "this server counts alone: there is no other node to remove"}
}

type clustered struct {
	s       *Service
	cluster backend.Cluster
}

func (c *clustered) remove(ctx context.Context, node string) (backend.Removal, error) {
	return c.cluster.Remove(ctx, node)
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
	removed, err := s.members.remove(ctx, node)
	var refused *request.Error
	switch {
	case errors.As(err, &refused):
		return none, refused
	case errors.Is(err, backend.ErrUnknownNode):
		return none, &request.Error{Code: api.CodeUnknownNode, Field: "node", Message: "no node is called " + request.Clip(node) + ": GET /v1/cluster lists them"}
	case errors.Is(err, backend.ErrNodeHere):
		return none, &request.Error{Code: api.CodeNodeHere, Field: "node", Message: err.Error()}
	case err != nil:
		s.parts.Log.ErrorContext(ctx, "a node could not be removed", "node", node, "error", err)
		return none, &request.Error{Code: api.CodeNotRemoved, Message: err.Error()}
	}
	answer := api.RemovedAnswer{Node: node, Origins: append([]string{}, removed.Origins...), Voter: removed.Voter, Streams: []api.ClusterStream{}}
	for _, one := range removed.Streams {
		answer.Streams = append(answer.Streams, api.ClusterStream(one))
	}
	return answer, nil
}

// errNoRegion answers what only a server can that counts for a region.
var errNoRegion = &request.Error{Code: api.CodeInvalidParameter, Message: "this server counts for no region: start it with --region"}

// Regions are those that count together, as this node sees them.
func (s *Service) Regions(c access.Caller) (a api.RegionsAnswer, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return a, err
	}
	from := s.parts.Regions
	if from == nil {
		return a, errNoRegion
	}
	f := from.Figures()
	a = api.RegionsAnswer{
		Region: from.Region(), Now: api.Millis(s.parts.Sources.Wall()), Owner: f.Owner, Regions: []api.Region{}, Links: []api.RegionLink{}, Pulls: []api.RegionPull{}, Feeds: f.Feeds, Sent: f.Sent,
		Last: f.Last, Damaged: f.Damaged, Unread: f.Unread, Missing: f.Missing, Alarms: append([]api.Alarm{}, from.Alarms()...),
	}
	for _, r := range from.Regions() {
		one := api.Region{
			Region: r.Name, Self: r.Own, Linked: r.Linked, Known: r.Known || r.Own, Gone: r.Gone, Base: r.Base, Epoch: r.Epoch, Digest: r.Digest,
			AsOf: queries.FreshOf(r).AsOf, EveryS: r.Every.Seconds(), HeardS: r.Heard.Seconds(), LagS: r.Lag.Seconds(), Late: r.Behind, Bytes: r.Bytes, Wrong: r.Wrong, Keys: r.Keys, Nodes: r.Late,
		}
		a.Regions = append(a.Regions, one)
	}
	for _, l := range from.Links() {
		a.Links = append(a.Links, api.RegionLink{Region: l.Region, URL: l.URL, Up: l.Up, Why: l.Why, ForS: l.For.Seconds(), Bytes: l.Bytes, PerS: l.Rate, Retries: l.Retries})
	}
	for _, p := range from.Pulls() {
		a.Pulls = append(a.Pulls, api.RegionPull{Region: p.Region, Now: p.Now, Bytes: p.Bytes, PerS: p.Rate, Behind: p.Behind})
	}
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
	err = s.parts.Regions.Forget(ctx, region)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backend.ErrUnknownRegion):
		return &request.Error{Code: api.CodeUnknownRegion, Field: "region", Message: err.Error()}
	case errors.Is(err, backend.ErrOwnRegion):
		return &request.Error{Code: api.CodeInvalidParameter, Field: "region", Message: err.Error()}
	}
	s.parts.Log.ErrorContext(ctx, "a region was not forgotten", "region", region, "error", err)
	return &request.Error{Code: api.CodeStopping, Message: "the region was not forgotten: ask again; the server's log says why"}
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
func (s *Service) Feed(ctx context.Context, c access.Caller, ask backend.FeedRequest, send func(frames []byte) error, flush func() error) error {
	err := s.parts.Regions.Feed(ctx, ask, send, func() error {
		if _, err := s.parts.Gate.Identity(c); err != nil {
			return err
		}
		return flush()
	})
	switch {
	case errors.Is(err, backend.ErrFeedRequest):
		return &request.Error{Code: api.CodeInvalidParameter, Message: err.Error()}
	case errors.Is(err, backend.ErrFeedsFull):
		return &request.Error{Code: api.CodeOverloaded, Message: err.Error()}
	}
	return err
}
