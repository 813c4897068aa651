package member

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir/journal/replica"
)

// RefuseNamesake returns an error if another process has this node's name: by it
// answers say who is late, and the one that lost its directory is replaced. A cluster
// of embedded servers has refused it before (join); servers of an existing NATS know
// nothing of nodes. This node answers already: of two that start at the same moment
// each finds the other, and both end. One that was heard of lately may be busy: it is
// asked until it answers, or is late. One that was silent for longer, and lives, is
// found by peers.Clocks, which raises an alarm.
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
		if !slices.ContainsFunc(m.Replica.Origins(time.Now()), m.heardNamesake) {
			return nil
		}
	}
}

// heardNamesake tells whether an origin has this node's name, and may live.
func (m *Members) heardNamesake(o replica.OriginStatus) bool {
	return o.Node == m.Node && !o.Self && !o.Left && !o.Late
}
