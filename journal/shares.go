package journal

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/share"
)

// shares is what a node knows of who holds which partitions.
type shares struct {
	registry *share.Registry
	replicas int
	told     weir.PartitionSet // what the registry says of this node; of the keeper
	ask      askTable
}

const shareBucket = "WEIR_SHARES"

// openShares reads who holds what, and releases the partitions that are others' to hold,
// before anything is loaded. Whether these are alive is not known yet: the keeper sees to
// that.
func (j *Journal) openShares(ctx context.Context, origin uint64) error {
	s := &shares{replicas: j.cfg.Replicas}
	err := patiently(ctx, func(ctx context.Context) (err error) {
		s.registry, err = share.Open(ctx, j.server.JetStream(), shareBucket, j.server.Replicas(replicas), j.log)
		return beingMade(err)
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
			j.engine.Release(partition)
		}
	}
	return nil
}

// preferred are the nodes that should hold a partition, of those given.
func (s *shares) preferred(nodes []string, partition int) []string {
	if s.replicas == 0 || len(nodes) <= s.replicas {
		return nodes
	}
	return share.Rank(nodes, rankName(partition))[:s.replicas]
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
		list := j.Holders()
		j.releaseShares(list)
		if err := j.takeShares(ctx, list); err != nil && ctx.Err() == nil {
			if failed++; failed == 1 || failed%60 == 0 {
				j.log.Warn("journal: partitions can't be taken yet; trying again", "error", err)
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

// tellShares registers what this node holds, if that has changed, or if it was removed
// (Remove) and is here nevertheless.
func (j *Journal) tellShares(ctx context.Context) {
	held := j.engine.HeldPartitions()
	known := slices.ContainsFunc(j.shares.registry.Entries(), func(e share.Entry) bool { return e.Node == j.cfg.Join.Node })
	if known && slices.Equal(held, j.shares.told) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, oneAsk)
	defer cancel()
	err := j.shares.registry.Put(ctx, share.Entry{Node: j.cfg.Join.Node, Origin: j.Origin(), Held: held})
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn("journal: the other nodes could not be told which partitions this one holds; trying again", "error", err)
		}
		return
	}
	j.shares.told = held
}

// wanted are the partitions that this node should hold.
func (j *Journal) wanted(list []Holder) weir.PartitionSet {
	var nodes []string
	for _, h := range list {
		if h.Staying {
			nodes = append(nodes, h.Node)
		}
	}
	if !slices.Contains(nodes, j.cfg.Join.Node) {
		nodes = append(nodes, j.cfg.Join.Node)
	}
	wanted := weir.NewPartitionSet(j.engine.Config().Partitions)
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
		if !j.engine.Holds(partition) || wanted.Has(partition) {
			continue
		}
		others := slices.DeleteFunc(holdersOf(list, partition), func(node string) bool { return node == j.cfg.Join.Node })
		if len(others) >= j.shares.replicas {
			j.replica.release(partition)
			released++
		}
	}
	if released > 0 {
		j.log.Info("journal: partitions released, which other nodes hold", "released", released, "held", j.engine.HeldPartitions().Len())
	}
}

// takeParts is in how many steps a node takes all partitions: each reads the journal
// from its snapshots on, and needs the memory for what it finds.
const takeParts = 8

// takeShares takes the partitions that this node should hold, those that fewest hold
// first.
func (j *Journal) takeShares(ctx context.Context, list []Holder) error {
	wanted := j.wanted(list)
	var missing []int
	for partition := range j.engine.Config().Partitions {
		if wanted.Has(partition) && !j.engine.Holds(partition) {
			missing = append(missing, partition)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortStableFunc(missing, func(a, b int) int {
		return cmp.Compare(len(holdersOf(list, a)), len(holdersOf(list, b)))
	})
	began, atOnce := time.Now(), max(1, j.engine.Config().Partitions/takeParts)
	for some := range slices.Chunk(missing, atOnce) {
		if err := j.take(ctx, some); err != nil {
			return err
		}
		j.tellShares(ctx)
	}
	j.log.Info("journal: partitions taken", "taken", len(missing), "held", j.engine.HeldPartitions().Len(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}
