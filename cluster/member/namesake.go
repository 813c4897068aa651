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
		if _, is := m.speaks(m.Node); !is {
			return nil
		}
	}
}

// speaks tells whether an origin of that name, another than this node's, was heard of lately.
func (m *Members) speaks(node string) (o replica.OriginStatus, is bool) {
	list := m.Replica.Origins(time.Now())
	i := slices.IndexFunc(list, func(o replica.OriginStatus) bool { return o.Node == node && !o.Self && !o.Left && !o.Late })
	if i < 0 {
		return o, false
	}
	return list[i], true
}
