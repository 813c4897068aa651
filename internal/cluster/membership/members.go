// Package membership decides who belongs to a cluster. It refuses a second node of the same name, and removes a node that
// is dead for good or that another node removed. It has the streams kept by as many nodes as there can be.
//
// Invariants:
//   - A node that answers, or whose messages arrive, is not removed.
//   - What a removed node journaled, before or after its removal, is counted.
//   - An answer waits for no removed node.
//
// Package transport takes the vote and the replicas of a removed node, and the Registry its entry among the holders.
// Package journal runs the loop; package service asks for a removal.
package membership

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Members looks after the other nodes of a cluster.
type Members struct {
	NATS    *transport.Node
	Log     *slog.Logger
	Node    string // this one's name
	Origin  uint64 // of its data directory
	Replica *replica.Replica
	Clocks  *Clocks // who answers is alive
	Holders *View

	CatchUp func(context.Context) error // returns when all is counted here that any node acknowledged before
	Trims   func() bool                 // reports whether this node is the one that trims the journal
}

// spreadTimeout bounds one attempt to spread the streams over more nodes.
const spreadTimeout = 10 * time.Second

// membersEvery is how often a node looks who the nodes are.
const membersEvery = 2 * time.Second

// Run checks, while origins are late, whether they were removed, and has the streams kept by as many nodes as there
// can be. No message announces a change: a node may be cut off, or not be there.
func (m *Members) Run(ctx context.Context) {
	spread := 0
	concurrency.Every(ctx, membersEvery, func() bool {
		if _, late := m.Replica.Freshness(time.Now()); len(late) > 0 {
			m.takeRemovals(ctx, late)
		}
		if can := m.NATS.Replicas(replica.Replicas); can > spread && m.Trims() && m.spread(ctx) {
			spread = can
		}
		return true
	})
}

// spread is done by one node. The loop calls it again after an error.
func (m *Members) spread(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, spreadTimeout)
	defer cancel()
	err := m.NATS.Spread(ctx, replica.Replicas)
	if err != nil && ctx.Err() == nil {
		m.Log.Warn("journal: could not spread streams over more nodes; will retry", "error", err)
	}
	return err == nil
}

// RefuseNamesake returns an error if another process has this node's name. Answers name late nodes by it, and a node
// that lost its directory is replaced by it. A cluster of embedded servers has refused it before (join); servers of an
// existing NATS know nothing of nodes. This node answers already, so two that start at the same moment find each
// other, and both end. A namesake whose messages arrived lately may be busy: it is asked until it answers, or is late.
// Beats find one that was silent for longer and lives, and raise an alarm.
func (m *Members) RefuseNamesake(ctx context.Context) error {
	if m.NATS.Embedded() {
		return nil
	}
	for {
		clocks, err := m.Clocks.Ask(ctx, math.MaxInt)
		if err != nil {
			return err
		}
		for _, c := range clocks {
			if c.Node == m.Node {
				return fmt.Errorf("another node that runs is called %s (its data directory is origin %s, this one's is %016x): give each node its own --node, or stop that one", c.Node, c.Origin, m.Origin)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, is := m.speaks(m.Node); !is {
			return nil
		}
	}
}

// speaks reports whether messages of another origin with that name arrived lately.
func (m *Members) speaks(node string) (o replica.OriginStatus, is bool) {
	list := m.Replica.Origins(time.Now())
	i := slices.IndexFunc(list, func(o replica.OriginStatus) bool { return o.Node == node && !o.Self && !o.Left && !o.Late })
	if i < 0 {
		return o, false
	}
	return list[i], true
}

// The code below exchanges messages between the nodes of a cluster over plain NATS subjects, in addition to the journal:
//
//   - HighWater: how far the journal goes.
//   - Beats: how far each node is, and whether its replicas store.
//   - Clocks: what time it is.
//   - Missing: messages that a replica lost, and flushes that the journal lost.
//   - Freshness: requests to flush at once, for fresh answers.
//
// Invariants: no hit depends on these messages. A message may be lost, come twice or late. The journal is the truth;
// the messages only make it known sooner, or say who is late. Each type has one subject, and answers or listens until
// the connection closes. Every queue is bounded; what exceeds it is dropped and asked again.
//
// Packages internal/journal/replica and internal/journal/record judge what arrives; they do not import this part. It
// makes these types when it joins, and runs their loops.
// Questions about keys use internal/cluster/query and internal/cluster/limits.
