package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/cluster/placement"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/groupcommit"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// Keeper takes and releases partitions until this node holds its share, and says what it holds.
type Keeper struct {
	View    *View
	Own     record.Incarnation
	Promise time.Duration // within which this node says something (replica.Promised)
	Replica *replica.Replica
	Store   *stream.Store
	Lost    *peers.Missing     // what the journal does not give
	Flushes *groupcommit.Queue // whose next cut takes what was handed over
}

// keepEvery is how often the keeper looks.
const keepEvery = time.Second

// Run takes and releases partitions until this node holds its
// share, and says what it holds.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for failed := 0; ; {
		k.tell(ctx)
		if k.Current() {
			k.release(ctx, k.View.List())
		}
		if err := k.takeMissing(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed == 1 || failed%60 == 0 {
				k.View.cfg.Log.Warn("journal: could not take over partitions; will retry", "error", err)
			}
		} else {
			failed = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell registers what this node holds, unless the registry has it: it has changed,
// or this node was removed (cluster/member) and is here nevertheless.
func (k *Keeper) tell(ctx context.Context) {
	now := placement.Entry{Node: k.View.cfg.Node, Origin: fmt.Sprintf("%016x", k.Own.Origin), Epoch: k.Own.Epoch, Held: k.View.engine().HeldPartitions()}
	if slices.ContainsFunc(k.View.registry.Entries(), now.Says) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	if err := k.View.registry.Put(ctx, now); err != nil && ctx.Err() == nil {
		k.View.cfg.Log.Warn("journal: could not tell the other nodes which partitions this one holds; will retry", "error", err)
	}
}

// wanted are the partitions that this node should hold.
func (k *Keeper) wanted(list []Holder) replication.PartitionSet {
	var nodes []string
	for _, h := range list {
		if h.Staying {
			nodes = append(nodes, h.Node)
		}
	}
	if !slices.Contains(nodes, k.View.cfg.Node) {
		nodes = append(nodes, k.View.cfg.Node)
	}
	wanted := replication.NewPartitionSet(k.View.partitions())
	for partition := range k.View.partitions() {
		if k.View.prefers(nodes, partition) {
			wanted.Add(partition)
		}
	}
	return wanted
}

// release lets those partitions go that as many others hold as should, and says so at once: others
// ask this node for them no more.
func (k *Keeper) release(ctx context.Context, list []Holder) {
	surplus := surplusOf(list, k.View.cfg.Node, k.View.engine().HeldPartitions(), k.View.partitions(), k.View.cfg.Replicas)
	if len(surplus) == 0 {
		return
	}
	for _, partition := range surplus {
		k.Replica.Release(partition)
	}
	k.tell(ctx)
	k.View.cfg.Log.Info("journal: released partitions that other nodes hold now", "released", len(surplus), "held", k.View.engine().HeldPartitions().Len())
}

// takeParts is in how many steps a node takes all partitions: each reads the journal
// from its snapshots on, and needs the memory for what it finds.
const takeParts = 16

// takeMissing takes the partitions that this node should hold, those that fewest hold
// first. What it should hold is looked at before each step: nodes come back meanwhile.
func (k *Keeper) takeMissing(ctx context.Context) (err error) {
	began, taken, atOnce := time.Now(), 0, max(1, k.View.partitions()/takeParts)
	tried := replication.NewPartitionSet(k.View.partitions())
	for ctx.Err() == nil && k.Current() {
		some := slices.DeleteFunc(k.missing(), tried.Has)
		some = some[:min(len(some), atOnce)]
		if len(some) == 0 {
			break
		}
		for _, partition := range some {
			tried.Add(partition)
		}
		n, failed := k.takeSome(ctx, some)
		taken += n
		err = cmp.Or(err, failed)
		k.tell(ctx)
	}
	if taken > 0 {
		k.View.cfg.Log.Info("journal: took over partitions", "taken", taken, "held", k.View.engine().HeldPartitions().Len(), "took", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// takeSome takes partitions together, or one by one if one of them can't be taken.
func (k *Keeper) takeSome(ctx context.Context, some []int) (taken int, err error) {
	if err = k.takeOver(ctx, some); err == nil {
		return len(some), nil
	}
	if !errors.Is(err, replica.ErrCannotCatchUp) && !errors.Is(err, replica.ErrOverflow) || len(some) == 1 {
		return 0, err
	}
	for _, partition := range some {
		if k.View.engine().Holds(partition) {
			continue
		}
		if failed := k.takeOver(ctx, []int{partition}); failed == nil {
			taken++
		} else if err = failed; ctx.Err() != nil {
			break
		}
	}
	return taken, err
}

// missing are the partitions that this node should hold and does not, those that fewest
// hold first.
func (k *Keeper) missing() (list []int) {
	if k.View.engine().HeldPartitions().Len() == k.View.partitions() {
		return nil
	}
	holders := k.View.List()
	wanted := k.wanted(holders)
	for partition := range k.View.partitions() {
		if wanted.Has(partition) && !k.View.engine().Holds(partition) {
			list = append(list, partition)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Compare(len(Of(holders, a)), len(Of(holders, b)))
	})
	return list
}

// Current tells whether this node has its own news back: one that was cut off or stopped
// does not know yet who is here.
func (k *Keeper) Current() bool {
	asOf := k.Replica.OwnAsOf()
	return k.View.engine().Wall().Sub(asOf) < k.Promise+replica.LateAfter
}
