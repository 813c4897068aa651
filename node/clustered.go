package node

import (
	"context"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/leased"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/cluster/query"
	"github.com/weir-counter/weir/cluster/strict"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/backend"
)

// handOver bounds how long a node that stops tries to give what it decides to others:
// without it they wait until its leases run out. It takes some 50 ms; of nodes that all
// stop at once the last ones can't, and must not wait longer than their journals linger
// for each other.
const handOver = 300 * time.Millisecond

// clustered keeps hits in a journal of many nodes, which answer questions and decide strict
// limits for each other.
type clustered struct{ durable }

func (m *clustered) open(ctx context.Context, engine *weir.Engine, sockets *sockets, parts *parts) error {
	if err := m.durable.open(ctx, engine, sockets, parts); err != nil {
		return err
	}
	sockets.Cluster = members{m.journal}
	sockets.settings = &peers.Settings{Conn: m.journal.Joined().Conn(), Log: m.log, Origin: m.journal.Origin(), Node: m.cfg.Journal.Join.Node}
	if err := m.openStrict(ctx, engine, sockets, parts); err != nil {
		return err
	}
	return m.openRouter(engine, sockets, parts)
}

// openStrict makes this node one of those that decide strict limits for each other.
func (m *clustered) openStrict(ctx context.Context, engine *weir.Engine, sockets *sockets, parts *parts) error {
	name := m.cfg.Journal.Join.Node
	lent := leased.New(leased.Config{Engine: engine, Node: name, Logger: m.log})
	s, err := strict.Open(ctx, strict.Config{Journal: m.journal, Engine: engine, Node: name, Lender: lent.Lender(), Logger: m.log})
	if err != nil {
		if ctx.Err() != nil {
			m.log.Info("an interrupt came before the node was ready")
			return interrupted(ctx)
		}
		return err
	}
	lent.Run(s)
	parts.opened(func(ctx context.Context) error {
		lent.Close()
		ctx, cancel := context.WithTimeout(ctx, handOver)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			m.log.Warn("could not hand over strict limits; other nodes decide them once the leases expire", "error", err)
		}
		return nil
	})
	sockets.Node = name
	sockets.Strict = func() backend.StrictStats { return backend.StrictStats(s.Stats()) }
	sockets.Leased = func() backend.LeasedStats { return backend.LeasedStats(lent.Stats()) }
	sockets.policy = admit.Cluster{Node: name, Nodes: nodesOf(m.journal), Strict: s, Leased: lent}
	return nil
}

// openRouter puts questions and decisions about keys that other nodes hold to them.
func (m *clustered) openRouter(engine *weir.Engine, sockets *sockets, parts *parts) error {
	j := m.journal
	r, err := query.Open(query.Config{
		Engine: engine, Conn: j.Joined().Conn(), Self: j.Origin(), Holders: j.WhomToAsk, Flush: j.Sync, Followed: j.Followed,
		FlushEvery: m.cfg.Journal.FlushEvery, Logger: m.log,
		Freshness: func() (asOf time.Time, late []query.Late) {
			asOf, silent := j.Freshness()
			for _, o := range silent {
				late = append(late, query.Late{Node: o.Node, Since: o.AsOf})
			}
			return asOf, late
		},
	})
	if err != nil {
		return err
	}
	parts.opened(func(context.Context) error {
		r.Close()
		return nil
	})
	sockets.policy.Shared = r
	sockets.Answers = routed{Router: r}
	sockets.Route = func() backend.RouteStats { return backend.RouteStats(r.Stats()) }
	return nil
}

// nodesOf is how many nodes there are, up or not: of a cluster all that have a vote, in
// an existing NATS those that were heard of and have not left.
func nodesOf(j *journal.Journal) func() int {
	return func() int {
		if size := j.Joined().Size(); size > 0 {
			return size
		}
		nodes := 0
		for _, o := range j.Origins() {
			if !o.Left {
				nodes++
			}
		}
		return nodes
	}
}
