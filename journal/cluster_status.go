package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/replica"
)

// ClusterStatus is what a node sees of those that count together with it.
type ClusterStatus struct {
	join.Status
	Origins     []replica.OriginStatus
	Clocks      []replica.Clock
	SnapshotsBy string // the node that takes the snapshots and trims the journal; "": none for now
	First, Last uint64 // messages of the journal
	Bytes       uint64 // of them, on one replica
	Partitions  int
	Replicas    int // nodes that hold each; 0: all
}

// statusTime bounds Cluster: nobody may answer.
const statusTime = time.Second

// Cluster asks all that answer, for a second at most. What could not be had is
// zero, and the error says why: a node that is cut off still tells what it sees.
// Of one node alone there is nothing to ask.
func (j *Journal) Cluster(ctx context.Context) (ClusterStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	s := ClusterStatus{Origins: j.Origins(), Partitions: j.engine.Config().Partitions, Replicas: j.cfg.Replicas}
	if !j.cfg.clustered() {
		return s, nil
	}
	var asking sync.WaitGroup
	var errs [4]error
	asking.Go(func() { s.Status, errs[0] = j.server.Status(ctx) })
	asking.Go(func() { s.First, s.Last, s.Bytes, errs[1] = j.store.Bounds(ctx) })
	asking.Go(func() { s.Clocks, errs[2] = j.Clocks(ctx) })
	asking.Go(func() { s.SnapshotsBy, errs[3] = j.others.leases.Who(ctx, checkpoint.Lease) })
	asking.Wait()
	if isGone(s.Origins, s.SnapshotsBy) {
		s.SnapshotsBy = "" // its lease is only not over yet
	}
	return s, errors.Join(errs[:]...)
}

// isGone tells whether a node has stopped, or is silent in all its directories.
func isGone(origins []replica.OriginStatus, node string) (gone bool) {
	for _, o := range origins {
		if o.Node == node {
			if gone = o.Left || o.Why == replica.Silent; !gone {
				return false
			}
		}
	}
	return gone
}
