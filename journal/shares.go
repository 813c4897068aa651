package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir/cluster/placement"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// shares is what a node knows of who holds which partitions.
type shares struct {
	registry *placement.Registry
	replicas int
	ask      askTable
}

const shareBucket = "WEIR_SHARES"

// openShares reads who holds what, and releases the partitions that are others' to hold,
// before anything is loaded. Whether these are alive is not known yet: the keeper sees to
// that.
func (j *Journal) openShares(ctx context.Context, origin uint64) error {
	s := &shares{replicas: j.cfg.Replicas}
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		s.registry, err = placement.Open(ctx, j.server.JetStream(), shareBucket, j.server.Replicas(replica.Replicas), j.log)
		return stream.NotYetCreated(err)
	})
	if err != nil {
		return err
	}
	j.shares = s
	nodes := []string{j.cfg.Join.Node}
	for _, e := range s.registry.Entries() {
		if e.Node != j.cfg.Join.Node {
			nodes = append(nodes, e.Node)
		}
	}
	for partition := range j.engine.Config().Partitions {
		if !slices.Contains(s.preferred(nodes, partition), j.cfg.Join.Node) {
			replication.Of(j.engine).Release(partition)
		}
	}
	return nil
}

// preferred are the nodes that should hold a partition, of those given.
func (s *shares) preferred(nodes []string, partition int) []string {
	if s.replicas == 0 || len(nodes) <= s.replicas {
		return nodes
	}
	return placement.Rank(nodes, rankName(partition))[:s.replicas]
}

// sharesEvery is how often the keeper looks.
const sharesEvery = time.Second

// runShares is the keeper: it takes and releases partitions until this node holds its
// share, and says what it holds.
func (j *Journal) runShares(ctx context.Context) {
	tick := time.NewTicker(sharesEvery)
	defer tick.Stop()
	for failed := 0; ; {
		j.tellShares(ctx)
		if j.current() {
			j.releaseShares(j.Holders())
		}
		if err := j.takeShares(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed == 1 || failed%60 == 0 {
				j.log.Warn("journal: could not take over partitions; will retry", "error", err)
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

// tellShares registers what this node holds, unless the registry has it: it has changed,
// or this node was removed (Remove) and is here nevertheless.
func (j *Journal) tellShares(ctx context.Context) {
	now := placement.Entry{Node: j.cfg.Join.Node, Origin: j.Origin(), Epoch: j.life.Epoch, Held: replication.Of(j.engine).HeldPartitions()}
	if slices.ContainsFunc(j.shares.registry.Entries(), now.Says) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	if err := j.shares.registry.Put(ctx, now); err != nil && ctx.Err() == nil {
		j.log.Warn("journal: could not tell the other nodes which partitions this one holds; will retry", "error", err)
	}
}

// wanted are the partitions that this node should hold.
func (j *Journal) wanted(list []Holder) replication.PartitionSet {
	var nodes []string
	for _, h := range list {
		if h.Staying {
			nodes = append(nodes, h.Node)
		}
	}
	if !slices.Contains(nodes, j.cfg.Join.Node) {
		nodes = append(nodes, j.cfg.Join.Node)
	}
	wanted := replication.NewPartitionSet(j.engine.Config().Partitions)
	for partition := range j.engine.Config().Partitions {
		if slices.Contains(j.shares.preferred(nodes, partition), j.cfg.Join.Node) {
			wanted.Add(partition)
		}
	}
	return wanted
}

// releaseShares lets those partitions go that as many others hold as should.
func (j *Journal) releaseShares(list []Holder) {
	if j.shares.replicas == 0 {
		return
	}
	wanted, released := j.wanted(list), 0
	for partition := range j.engine.Config().Partitions {
		if !replication.Of(j.engine).Holds(partition) || wanted.Has(partition) {
			continue
		}
		others := slices.DeleteFunc(holdersOf(list, partition), func(node string) bool { return node == j.cfg.Join.Node })
		if len(others) >= j.shares.replicas {
			j.replica.Release(partition)
			released++
		}
	}
	if released > 0 {
		j.log.Info("journal: released partitions that other nodes hold now", "released", released, "held", replication.Of(j.engine).HeldPartitions().Len())
	}
}

// takeParts is in how many steps a node takes all partitions: each reads the journal
// from its snapshots on, and needs the memory for what it finds.
const takeParts = 16

// takeShares takes the partitions that this node should hold, those that fewest hold
// first. What it should hold is looked at before each step: nodes come back meanwhile.
func (j *Journal) takeShares(ctx context.Context) (err error) {
	began, taken, atOnce := time.Now(), 0, max(1, j.engine.Config().Partitions/takeParts)
	tried := replication.NewPartitionSet(j.engine.Config().Partitions)
	for ctx.Err() == nil && j.current() {
		some := slices.DeleteFunc(j.missing(), tried.Has)
		some = some[:min(len(some), atOnce)]
		if len(some) == 0 {
			break
		}
		for _, partition := range some {
			tried.Add(partition)
		}
		n, failed := j.takeSome(ctx, some)
		taken += n
		err = cmp.Or(err, failed)
		j.tellShares(ctx)
	}
	if taken > 0 {
		j.log.Info("journal: took over partitions", "taken", taken, "held", replication.Of(j.engine).HeldPartitions().Len(), "took", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// takeSome takes partitions together, or one by one if one of them can't be taken.
func (j *Journal) takeSome(ctx context.Context, some []int) (taken int, err error) {
	if err = j.take(ctx, some); err == nil {
		return len(some), nil
	}
	if !errors.Is(err, replica.ErrCannotCatchUp) && !errors.Is(err, replica.ErrOverflow) || len(some) == 1 {
		return 0, err
	}
	for _, partition := range some {
		if replication.Of(j.engine).Holds(partition) {
			continue
		}
		if failed := j.take(ctx, []int{partition}); failed == nil {
			taken++
		} else if err = failed; ctx.Err() != nil {
			break
		}
	}
	return taken, err
}

// missing are the partitions that this node should hold and does not, those that fewest
// hold first.
func (j *Journal) missing() (list []int) {
	if replication.Of(j.engine).HeldPartitions().Len() == j.engine.Config().Partitions {
		return nil
	}
	holders := j.Holders()
	wanted := j.wanted(holders)
	for partition := range j.engine.Config().Partitions {
		if wanted.Has(partition) && !replication.Of(j.engine).Holds(partition) {
			list = append(list, partition)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Compare(len(holdersOf(holders, a)), len(holdersOf(holders, b)))
	})
	return list
}

// current tells whether this node has its own news back: one that was cut off or stopped
// does not know yet who is here.
func (j *Journal) current() bool {
	asOf := j.replica.OwnAsOf()
	return j.now().Sub(asOf) < replica.Promised(j.cfg.FlushEvery)+replica.LateAfter
}
