package journal

import (
	"context"
	"slices"
)

// Whose snapshots are whose: one node alone takes all. Of many nodes, the one with the
// lease takes those of the partitions that it holds, and trims the journal. Those that it
// does not hold are taken by the first of their holders. Of two that believe they should,
// a slot takes one's.
const snapshotsLease = "snapshots"

// trims tells whether this node trims the journal.
func (j *Journal) trims() bool {
	if !j.cfg.clustered() {
		return true
	}
	_, _, ok := j.holder.Held(snapshotsLease)
	return ok
}

// snapshotsToTake are the partitions that this node snapshots now, in order.
func (j *Journal) snapshotsToTake() (list []int) {
	all, trims := j.engine.Config().Partitions, j.trims()
	var holders []Holder
	if !trims {
		if holders = j.Holders(); !parted(holders, all) {
			return nil
		}
	}
	by := j.snapshots.takenBy()
	for partition := range all {
		if j.engine.Replication().Holds(partition) && (trims || j.takesFor(holders, by, partition)) {
			list = append(list, partition)
		}
	}
	return list
}

// parted tells whether some node holds a share only.
func parted(holders []Holder, partitions int) bool {
	return slices.ContainsFunc(holders, func(h Holder) bool { return h.Held.Len() < partitions })
}

// takesFor tells whether this node takes a snapshot in place of the one with the lease.
func (j *Journal) takesFor(holders []Holder, by string, partition int) bool {
	nodes := holdersOf(holders, partition)
	return !slices.Contains(nodes, by) && len(nodes) > 0 && nodes[0] == j.cfg.Join.Node
}

// lookAtSnapshots finds out what others have stored: when the lease comes to this node,
// and where several nodes take snapshots before each round. It tells whether a round may
// start.
func (j *Journal) lookAtSnapshots(ctx context.Context) bool {
	if !j.cfg.clustered() {
		return true
	}
	l, _, trims := j.holder.Held(snapshotsLease)
	if !parted(j.Holders(), j.engine.Config().Partitions) && (!trims || l.Token == j.snapshots.token) {
		return trims
	}
	by := j.cfg.Join.Node
	if !trims {
		var err error
		if by, err = j.holder.Who(ctx, snapshotsLease); err != nil {
			j.log.Warn("journal: could not find out which node takes the snapshots; will retry", "error", err)
			return false
		}
	}
	return j.listStored(ctx, by, l.Token)
}

// listStored reads what is in the slots.
func (j *Journal) listStored(ctx context.Context, by string, token uint64) bool {
	partitions := j.engine.Config().Partitions
	lists, _, err := j.store.listSnapshots(ctx, partitions)
	if err != nil {
		j.log.Warn("journal: could not list the snapshots; will retry", "error", err)
		return false
	}
	have := make([][slots]kept, partitions)
	for partition, list := range lists {
		for _, at := range list {
			have[partition][at.slot] = kept{at.from + 1, at.sequence}
		}
	}
	j.snapshots.mu.Lock()
	defer j.snapshots.mu.Unlock()
	j.snapshots.have, j.snapshots.token, j.snapshots.by = have, token, by
	return true
}

// takenBy is the node that has the lease, as the last look at the snapshots found.
func (s *snapshotter) takenBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by
}
