package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-counter/weir/journal/join"
)

// ClusterStatus is what a node sees of those that count together with it.
type ClusterStatus struct {
	join.Status
	Origins     []OriginStatus
	Clocks      []Clock
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
	asking.Go(func() { s.First, s.Last, s.Bytes, errs[1] = j.store.bounds(ctx) })
	asking.Go(func() { s.Clocks, errs[2] = j.Clocks(ctx) })
	asking.Go(func() { s.SnapshotsBy, errs[3] = j.holder.Who(ctx, snapshotsLease) })
	asking.Wait()
	return s, errors.Join(errs[:]...)
}
