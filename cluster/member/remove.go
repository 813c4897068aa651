package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/replica"
)

// Removal is what Remove did.
type Removal struct {
	Node    string
	Origins []string         // its data directories, that nobody waits for any more
	Voter   bool             // it had a vote, and has it no more
	Streams []join.Placement // who keeps what now; nil with an existing NATS
}

var (
	// ErrUnknownNode is why nothing was removed: no node of that name journals, or has
	// a vote.
	ErrUnknownNode = errors.New("no node of that name")
	// ErrNodeHere is why nothing was removed: the node is alive.
	ErrNodeHere = errors.New("the node is running")
)

// Remove permanently removes a dead node: its vote and its
// replicas go (join.Node.Remove), it is no holder, and no answer waits for its hits. Those that reached
// the journal stay counted. One that is alive is refused. If it comes back
// nevertheless, what it journals is counted, and it is waited for again.
//
// The other nodes stop waiting within some seconds.
func (m *Members) Remove(ctx context.Context, node string) (Removal, error) {
	r := Removal{Node: node}
	if err := m.refuseAlive(ctx, node); err != nil {
		return r, err
	}
	// Its last hits may be in the journal and not yet here.
	if err := m.CatchUp(ctx); err != nil {
		return r, fmt.Errorf("journal: remove %s: %w", node, err)
	}
	var known bool
	var gone []replica.OriginStatus
	for _, o := range m.Replica.Origins(time.Now()) {
		if o.Node == node {
			known = true
			if !o.Left {
				gone = append(gone, o)
			}
		}
	}
	var err error
	if r.Voter, r.Streams, err = m.NATS.Remove(ctx, node); err != nil {
		return r, fmt.Errorf("journal: %w", err)
	}
	if !known && !r.Voter {
		return r, fmt.Errorf("%w: %s", ErrUnknownNode, node)
	}
	if err := m.Holders.Remove(ctx, node); err != nil {
		return r, fmt.Errorf("journal: remove %s: its vote is gone, but the other nodes still know it as a holder: ask again: %w", node, err)
	}
	for _, o := range gone {
		if err := m.recordRemoved(ctx, o); err != nil {
			return r, fmt.Errorf("journal: remove %s: its vote is gone, but the other nodes still wait for it: ask again: %w", node, err)
		}
		r.Origins = append(r.Origins, o.Origin)
	}
	m.Log.Warn("journal: removed a node permanently", "node", node, "origins", r.Origins, "voter", r.Voter)
	return r, nil
}

// refuseAlive returns ErrNodeHere if a node was heard of lately, or answers.
func (m *Members) refuseAlive(ctx context.Context, node string) error {
	if node == m.Node {
		return fmt.Errorf("%w: %s is the one that you ask: stop it, and ask another", ErrNodeHere, node)
	}
	const stop = "stop it before, or start it again if it is to stay"
	if o, is := m.speaks(node); is {
		return fmt.Errorf("%w: %s was heard of %v ago: %s", ErrNodeHere, node, time.Since(o.Heard).Round(time.Millisecond), stop)
	}
	clocks, err := m.Clocks.Ask(ctx, len(m.Replica.Origins(time.Now())))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(clocks, func(c replica.Clock) bool { return c.Node == node }) {
		return fmt.Errorf("%w: %s answers: %s", ErrNodeHere, node, stop)
	}
	if !m.NATS.Embedded() {
		return nil
	}
	seen, err := m.NATS.Status(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(seen.Servers, func(s join.Server) bool { return s.Name == node }) ||
		slices.ContainsFunc(seen.Routes, func(r join.Route) bool { return r.Node == node }) {
		return fmt.Errorf("%w: %s is connected (one that died without a word is so for up to 15 s): %s", ErrNodeHere, node, stop)
	}
	return nil
}
