package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/service/backend"
)

// members are the nodes of a journal as the service knows them.
type members struct{ *journal.Journal }

func (a members) Freshness() (asOf time.Time, late []backend.LateNode) {
	asOf, silent := a.Journal.Freshness()
	for _, o := range silent {
		late = append(late, backend.LateNode{Name: o.Node, Since: o.AsOf})
	}
	return asOf, late
}

func (a members) Fresh(ctx context.Context) (upTo uint64, now time.Time, err error) {
	m, err := a.Journal.Fresh(ctx)
	if missing, ok := errors.AsType[*peers.NotFreshError](err); ok {
		err = &backend.NotFreshError{Missing: missing.Missing, Reason: missing.Error()}
	}
	return m.UpTo, m.Now, err
}

func (a members) Nodes() (nodes []backend.Node) {
	held := map[string]int{}
	for _, h := range a.Holders() {
		held[h.Origin] = h.Held.Len()
	}
	for _, o := range a.Origins() {
		nodes = append(nodes, backend.Node{
			Name: o.Node, Origin: o.Origin, Epoch: o.Epoch, Self: o.Self, Left: o.Left, Late: o.Late, Why: string(o.Why), AsOf: o.AsOf, Heard: o.Heard,
			Held: held[o.Origin],
		})
	}
	return nodes
}

func (a members) Skews(ctx context.Context) map[string]backend.Skew {
	clocks, err := a.Clocks(ctx)
	if err != nil {
		return nil // the connection is closed: this process ends
	}
	skews := map[string]backend.Skew{}
	for _, c := range clocks {
		skews[c.Origin] = backend.Skew{Ahead: c.Skew, Error: c.RTT / 2}
	}
	return skews
}

func (a members) Remove(ctx context.Context, node string) (to backend.Removal, err error) {
	from, err := a.Journal.Remove(ctx, node)
	switch {
	case errors.Is(err, member.ErrUnknownNode):
		return to, errors.Join(backend.ErrUnknownNode, err)
	case errors.Is(err, member.ErrNodeHere):
		return to, fmt.Errorf("%w%s", backend.ErrNodeHere, strings.TrimPrefix(err.Error(), member.ErrNodeHere.Error()))
	case err != nil:
		return to, err
	}
	to = backend.Removal{Origins: from.Origins, Voter: from.Voter}
	for _, one := range from.Streams {
		to.Streams = append(to.Streams, backend.ClusterStream{Name: one.Stream, Nodes: one.Nodes})
	}
	return to, nil
}

func (a members) Status(ctx context.Context) backend.ClusterStatus {
	from, err := a.Cluster(ctx)
	to := backend.ClusterStatus{
		Mode: "nats", Replicas: from.Replicas, Cluster: from.Cluster, Node: from.Node, Size: from.Size, Leader: from.Leader,
		SnapshotsBy: from.SnapshotsBy, First: from.First, Last: from.Last, Bytes: int64(from.Bytes),
	}
	if from.Embedded {
		to.Mode = "cluster"
	}
	for _, s := range from.Servers {
		to.Servers = append(to.Servers, backend.ClusterServer{Name: s.Name, Version: s.Version, JetStream: s.JetStream, RTT: s.RTT})
	}
	for _, r := range from.Routes {
		to.Routes = append(to.Routes, backend.ClusterRoute{Node: r.Node, Addr: r.Addr, RTT: r.RTT, Pending: r.Pending})
	}
	if err != nil {
		to.Problems = strings.Split(err.Error(), "\n") // one line of a joined error each
	}
	if from.Embedded && from.Leader == "" {
		to.Problems = append(to.Problems, fmt.Sprintf("JetStream has no leader: more than half of %d nodes must reach each other for hits to become durable", from.Size))
	}
	return to
}
