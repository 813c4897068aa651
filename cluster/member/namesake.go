package member

import (
	"context"
	"fmt"
	"math"
)

// RefuseNamesake returns an error if another process has this node's name: by it
// answers say who is late, and the one that lost its directory is replaced. A cluster
// of embedded servers has refused it before (join); servers of an existing NATS know
// nothing of nodes. This node answers already: of two that start at the same moment
// each finds the other, and both end.
func (m *Members) RefuseNamesake(ctx context.Context) error {
	if m.NATS.Embedded() {
		return nil
	}
	clocks, err := m.Clocks.Ask(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	for _, c := range clocks {
		if c.Node == m.Node {
			return fmt.Errorf("another node that runs is called %s (its data directory is origin %s, this one's is %016x): give each node its own --node, or stop that one", c.Node, c.Origin, m.Origin)
		}
	}
	return nil
}
