package journal

import (
	"context"
	"log/slog"

	"github.com/weir-counter/weir/cluster/holders"
	"github.com/weir-counter/weir/cluster/lease"
	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal/replica"
)

// others is what a node has to count together with other nodes, beside its journal. highWater,
// lost and holders are there before the journal is loaded, all others once this node has joined
// (beginCluster).
type others struct {
	highWater  *peers.HighWater
	lost       *peers.Missing
	holders    *holders.View
	keeper     *holders.Keeper
	members    *member.Members
	fresh      *peers.Freshness
	storeWatch *peers.StoreWatch
	stores     replica.Stores // whose replicas store
	leases     *lease.Holder
	endBeats   func()
}

// loops are what runs on goroutines of its own until its context is done.
func (o *others) loops() []func(context.Context) {
	return []func(context.Context){o.keeper.Run, o.members.Run, o.storeWatch.Run, o.fresh.Run, o.fresh.RunAnswers}
}

// leave gives back what beginCluster took, as far as it came.
func (o *others) leave(log *slog.Logger) {
	if o.endBeats != nil {
		o.endBeats()
	}
	if o.leases == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterAskTimeout)
	defer cancel()
	if err := o.leases.Close(ctx); err != nil {
		log.Warn("journal: could not release leases; they will expire", "error", err)
	}
}
