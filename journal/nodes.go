package journal

import (
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir/cluster/holders"
	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/replica"
)

// Origins says of each origin how much of it is counted here, by name.
func (j *Journal) Origins() []replica.OriginStatus { return j.replica.Origins(time.Now()) }

// Freshness says until when the hits of all nodes are counted here, and which
// nodes are late: what these have counted since may be missing. This node is among them
// where its own flushes do not come back, so that nothing is known of nodes that it never
// heard of. Alone, a node has all hits, always.
func (j *Journal) Freshness() (asOf time.Time, late []replica.OriginStatus) {
	return j.replica.Freshness(time.Now())
}

// Fresh returns when all hits are counted here that any node took before the call,
// and until when that is. If ctx ends before, the error is a *peers.NotFreshError. A node
// alone has all hits, always.
func (j *Journal) Fresh(ctx context.Context) (peers.Moment, error) {
	if !j.cfg.clustered() {
		return peers.Moment{Now: j.engine.Now()}, nil
	}
	return j.others.fresh.Await(ctx)
}

// Clocks asks the other nodes for the time. It returns when as many have answered
// as are neither late nor gone, within 300 ms in any case.
func (j *Journal) Clocks(ctx context.Context) ([]replica.Clock, error) {
	if !j.cfg.clustered() {
		return nil, nil
	}
	return j.clocks.All(ctx)
}

// ClockSound tells whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (j *Journal) ClockSound() bool { return j.clocks.Sound() }

// Holders are the nodes that have said which partitions they hold, by name. A node
// alone has none.
func (j *Journal) Holders() []holders.Holder {
	if j.others == nil {
		return nil
	}
	return j.others.holders.List()
}

// holdersOfParts is what checkpoints need of them.
func (j *Journal) holdersOfParts() checkpoint.Holders {
	list, partitions := j.Holders(), j.engine.Config().Partitions
	return checkpoint.Holders{
		Parted: slices.ContainsFunc(list, func(h holders.Holder) bool { return h.Held.Len() < partitions }),
		Of:     func(partition int) []string { return holders.Of(list, partition) },
	}
}

// WhomToAsk are the origins of the other nodes that hold a partition and have not left
// (holders.View). A node alone asks nobody.
func (j *Journal) WhomToAsk(partition int) []string {
	if j.others == nil {
		return nil
	}
	return j.others.holders.WhomToAsk(partition)
}

// Unheld is how many partitions no running node holds: nobody can answer for them.
func (j *Journal) Unheld() int {
	if j.others == nil {
		return 0
	}
	return j.others.holders.Unheld()
}

// Remove permanently removes a dead node (member.Members). Only for a node in a cluster.
func (j *Journal) Remove(ctx context.Context, node string) (member.Removal, error) {
	return j.others.members.Remove(ctx, node)
}
