package membership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// This file knows which partitions each node of a cluster holds (View), and gives this node its share (Keeper). The
// Keeper takes partitions over from snapshots and the journal. It releases a partition that enough other nodes
// hold.
//
// Invariants:
//   - A partition is released only while enough other nodes hold it.
//   - A partition is taken whole or not at all.
//   - A node takes and releases nothing until it has its own entry back, because it does not know who is there.
//
// File placement.go says where a partition belongs, and has the registry of holders; package internal/journal/replica does
// the hand-off itself. Package durable opens the View before it loads and runs the Keeper; package query asks it whom
// to ask.

// Keeper takes and releases partitions until this node holds its share, and says what it holds.
type Keeper struct {
	View    *View
	Own     record.Incarnation
	Promise time.Duration // within which this node says something (replica.Promised)
	Replica *replica.Replica
	Store   *stream.Store
	Flushes *concurrency.Queue // whose next cut takes what was handed over
}

// keepEvery is how often the keeper looks.
const keepEvery = time.Second

// Run takes and releases partitions until this node holds its
// share, and says what it holds.
func (k *Keeper) Run(ctx context.Context) {
	failed := 0
	concurrency.Repeat(ctx, keepEvery, func() {
		k.tell(ctx)
		k.expect(time.Now())
		list := k.View.List()
		k.View.compareSettings(time.Now(), k.View.ownSettings(), list)
		if k.Current() {
			k.release(ctx, list)
		}
		if err := k.takeMissing(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed == 1 || failed%60 == 0 {
				k.View.cfg.Log.Warn("journal: could not take over partitions; will retry", "error", err)
			}
		} else {
			failed = 0
		}
	})
}

// tell registers what this node holds and how it is set, unless the registry has it: it has changed,
// or this node was removed (internal/cluster/membership) and is here nevertheless.
func (k *Keeper) tell(ctx context.Context) {
	now := PlacementEntry{Node: k.View.cfg.Node, Origin: fmt.Sprintf("%016x", k.Own.Origin), Epoch: k.Own.Epoch, Held: k.View.engine().HeldPartitions(), Settings: k.View.ownSettings()}
	if slices.ContainsFunc(k.View.Entries(), now.Says) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	if err := k.View.Put(ctx, now); err != nil && ctx.Err() == nil {
		k.View.cfg.Log.Warn("journal: could not announce which partitions this node holds; will retry", "error", err)
	}
}

// expect has the replica know the members that registered: the journal may have lost the only flushes of one that this node never
// hears. One that registered longer ago is known by its flushes, or was waited for.
func (k *Keeper) expect(now time.Time) {
	for _, e := range k.View.Entries() {
		origin, err := strconv.ParseUint(e.Origin, 16, 64)
		if err == nil && e.Node != k.View.cfg.Node && now.Sub(e.At) <= replica.ForgetAfter {
			k.Replica.Expect(now, record.Incarnation{Origin: origin, Epoch: e.Epoch}, e.Node)
		}
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

// takeMissing takes the partitions that this node should hold, those that fewest hold
// first: as many at once as there is memory for. What it should hold is looked at each time: nodes come back meanwhile.
func (k *Keeper) takeMissing(ctx context.Context) (err error) {
	began, taken := time.Now(), 0
	tried := replication.NewPartitionSet(k.View.partitions())
	for ctx.Err() == nil && k.Current() {
		some := slices.DeleteFunc(k.missing(), tried.Has)
		if len(some) == 0 {
			break
		}
		some, failed := k.Replica.TakeOver(some, &taking{k.Store.Source(ctx), ctx, k, time.Now()})
		for _, partition := range some {
			tried.Add(partition)
			if k.View.engine().Keyspace().Holds(partition) {
				taken++
			}
		}
		err = cmp.Or(err, failed)
		k.tell(ctx)
	}
	if taken > 0 {
		k.View.cfg.Log.Info("journal: took over partitions", "taken", taken, "held", k.View.engine().HeldPartitions().Len(), "took", time.Since(began).Round(time.Millisecond))
	}
	return err
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
		if wanted.Has(partition) && !k.View.engine().Keyspace().Holds(partition) {
			list = append(list, partition)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Compare(len(HoldersOf(holders, a)), len(HoldersOf(holders, b)))
	})
	return list
}

// Current reports whether this node has its own news back: one that was cut off or stopped
// does not know yet who is here.
func (k *Keeper) Current() bool {
	asOf := k.Replica.OwnAsOf()
	return k.View.engine().Wall().Time().Sub(asOf) < k.Promise+replica.LateAfter
}

// surplusOf returns the partitions that a node holds and may release. A partition may be released if enough nodes are
// here, hold it, and rank before this one. replicas = 0 means that nothing is surplus.
//
// Nodes that decide at the same moment, each by a view that may be old, never release a partition below replicas.
// Consider all nodes that ever reported that they hold it. Too few of them rank before the first `replicas` of them, so
// those never release it, however old their views are.
func surplusOf(list []Holder, node string, held replication.PartitionSet, partitions, replicas int) (surplus []int) {
	if replicas == 0 {
		return nil
	}
	for partition := range partitions {
		if held.Has(partition) && before(HoldersOf(list, partition), node, partition) >= replicas {
			surplus = append(surplus, partition)
		}
	}
	return surplus
}

// before is how many of some nodes rank before another one for a partition.
func before(nodes []string, node string, partition int) int {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
	return slices.Index(RankFor(append(others, node), partition), node)
}

// loads reports whether a node that starts loads a partition, by the holdings that all nodes reported. It loads one
// that it should hold. It also loads one that it held in the life before and would not release.
func loads(entries []PlacementEntry, node string, partition, replicas int) bool {
	nodes, held, holders := []string{node}, false, []string(nil)
	for _, e := range entries {
		if e.Node != node {
			nodes = append(nodes, e.Node)
		}
		if e.Held.Has(partition) {
			holders = append(holders, e.Node)
			held = held || e.Node == node
		}
	}
	return slices.Contains(Preferred(nodes, partition, replicas), node) ||
		held && before(holders, node, partition) < replicas
}

// takeTime bounds each wait of a take, but not the reading, which goes on.
const takeTime = time.Minute

var errTooLong = fmt.Errorf("a partition was not taken within %v", takeTime)

// taking is what a take-over needs of the journal's stores and of the clock.
type taking struct {
	replica.Source
	ctx    context.Context
	keeper *Keeper
	began  time.Time
}

// Now is the time.
func (*taking) Now() time.Time { return time.Now() }

// Snapshots reads the newest good snapshot of some partitions.
func (t *taking) Snapshots(partitions []int, each func(record.Snapshot)) error {
	return concurrency.Do(len(partitions), func(i int) error {
		snap, err := t.keeper.Store.Newest(t.ctx, partitions[i])
		if snap != nil {
			each(*snap)
		}
		return err
	})
}

// comePoll is how often the keeper looks how far the follower is.
const comePoll = 20 * time.Millisecond

// Pause waits for the follower to go on.
func (t *taking) Pause() error {
	if time.Since(t.began) > takeTime {
		return errTooLong
	}
	return concurrency.Sleep(t.ctx, comePoll)
}

// First is the first message of the journal.
func (t *taking) First() (uint64, error) {
	first, _, _, err := t.keeper.Store.Bounds(t.ctx)
	return first, err
}

// Read reads the journal.
func (t *taking) Read(from, to uint64, each func(sequence uint64, data []byte) error) error {
	return t.keeper.Store.Read(t.ctx, from, to, each)
}

// Hurry has the next cut come now, and not a flush interval later.
func (t *taking) Hurry([]int) { t.keeper.Flushes.Hurry() }

// Await waits for a cut, and has it come now too: each takes only some of many partitions.
func (t *taking) Await(held <-chan struct{}) error {
	select {
	case <-held:
		return nil
	default:
		t.keeper.Flushes.Hurry()
	}
	select {
	case <-held:
		return nil
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	case <-time.After(takeTime):
		return errTooLong
	}
}
