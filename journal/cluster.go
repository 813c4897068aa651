package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/cluster/holders"
	"github.com/weir-counter/weir/cluster/join/ondisk"
	"github.com/weir-counter/weir/cluster/lease"
	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

const leaseBucket = "WEIR_LEASES"

// beginCluster starts what only a clustered node needs: the answers to those
// who miss a flush, and the leases.
func (j *Journal) beginCluster(ctx context.Context) error {
	conn := j.server.Conn()
	if err := peers.ServeResends(conn, j.log, j.own, j.replica.Sent); err != nil {
		return err
	}
	if err := j.others.highWater.Listen(); err != nil {
		return err
	}
	j.others.storeWatch = &peers.StoreWatch{Conn: conn, Log: j.log, Node: j.cfg.Join.Node, Own: j.ownStore, Followers: j.store.Followers, Stores: &j.others.stores}
	if err := j.others.storeWatch.Listen(); err != nil {
		return err
	}
	beats := &peers.Beats{
		Conn: conn, Log: j.log, Own: j.own, Node: j.cfg.Join.Node, Promise: replica.Promised(j.cfg.FlushEvery), Written: j.flusher.Written, Replica: j.replica,
	}
	if err := beats.Listen(); err != nil {
		return err
	}
	j.others.fresh = peers.NewFreshness(peers.FreshnessConfig{
		Conn: conn, Log: j.log, Origin: j.own.Origin, Node: j.cfg.Join.Node, Now: j.engine.Now,
		Flushes: j.waiters, HighWater: j.others.highWater, Origins: j.Origins, Next: j.replica.Next, AwaitFollowed: j.awaitFollowed,
	})
	if err := j.others.fresh.Listen(); err != nil {
		return err
	}
	if err := j.others.lost.Serve(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := j.clocks.Serve(); err != nil {
		return err
	}
	j.others.members = &member.Members{
		NATS: j.server, Log: j.log, Node: j.cfg.Join.Node, Origin: j.own.Origin, Replica: j.replica, Clocks: j.clocks, Holders: j.others.holders,
		CatchUp: j.CatchUp, Trims: j.checkpoints.Trims,
	}
	j.others.keeper = &holders.Keeper{
		View: j.others.holders, Own: j.own, Promise: replica.Promised(j.cfg.FlushEvery), Replica: j.replica, Store: j.store, Lost: j.others.lost, Flushes: j.waiters,
	}
	if err := j.others.members.RefuseNamesake(ctx); err != nil {
		return err
	}
	if err := j.sayHello(ctx); err != nil {
		return err
	}
	j.others.endBeats = beats.Begin(ctx)
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		j.restores.Claims.Leases, err = lease.Open(ctx, j.server.JetStream(), leaseBucket, lease.Self{Node: j.cfg.Join.Node, Origin: j.Origin()}, lease.DefaultTTL, j.server.Replicas(replica.Replicas))
		return stream.NotYetCreated(err)
	})
	if err != nil {
		return err
	}
	j.others.leases = lease.Hold(j.restores.Claims.Leases, lease.Config{Names: []string{checkpoint.Lease}, Logger: j.log})
	return nil
}

// ownStore is how this node's embedded server stores, if it has one.
func (j *Journal) ownStore() (replica.StoreState, bool) {
	store, known := j.server.Store()
	return replica.StoreState(store), known
}

// endQuarantine ends a start after which this node has all that the cluster has: what it
// quarantined of its own is needed no more, unless something is lost.
func (j *Journal) endQuarantine(ctx context.Context, lost []record.Finding) error {
	if len(lost) > 0 {
		return nil
	}
	return stream.RetryUnavailable(ctx, j.server.Settled)
}

// replaced are the findings of files that were damaged and are copied again.
func replaced(damaged []ondisk.Damage) (found []record.Finding) {
	for _, damage := range damaged {
		found = append(found, record.Finding{Where: damage.Path, What: damage.What, Cost: "none: what is missing comes from the log of the replicas or from the other nodes", Harmless: true})
	}
	return found
}

// sayHello journals the first flush of this life, and applies all before it.
func (j *Journal) sayHello(ctx context.Context) error {
	var sequence uint64
	began := time.Now()
	for _, data := range j.replica.Hello(began) {
		if err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
			sequence, err = j.store.Publish(ctx, data, askTimeout)
			return err
		}); err != nil {
			return fmt.Errorf("first flush: %w", err)
		}
	}
	if err := j.followTo(ctx, sequence); err != nil {
		return err
	}
	j.flusher.SaidHello(began, sequence)
	j.replica.Ready()
	return nil
}

// leaveTimeout bounds what is only good manners, where nobody is there to hear it.
const leaveTimeout = 2 * time.Second

// linger is how long a node's server stays after its last flush: of nodes that are
// all stopped at the same time, the last one needs others for its own.
const linger = 500 * time.Millisecond

// leave journals that this node takes no more hits, so that nobody waits for it, and so that
// a node that goes on alone knows that this one has nothing newer.
// Where the others stop too there may be nobody to tell.
func (j *Journal) leave(ctx context.Context) {
	if !j.cfg.clustered() {
		return
	}
	j.leaving.Store(true)
	accompanied := j.server.Accompanied
	if j.isGone() { // its server may lead a stream that it can't write any more, until it ends
		accompanied = func() bool { return false }
	}
	if err := tell(ctx, leaveTimeout, j.Sync, accompanied); err != nil {
		j.log.Warn("journal: could not tell the other nodes that this one stops; they call it late until it is back; no hit is lost", "error", err)
		return
	}
	if j.server.Embedded() {
		select {
		case <-ctx.Done():
		case <-time.After(linger):
		}
	}
}

// tell syncs, in tries of at most timeout: again for as long as another node is connected, until
// ctx ends. The one that led the stream may have stopped a moment ago, and an election
// takes longer than a try.
func tell(ctx context.Context, timeout time.Duration, sync func(context.Context) error, accompanied func() bool) error {
	for {
		try, cancel := context.WithTimeout(ctx, timeout)
		err := sync(try)
		late := try.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil || !accompanied() {
			return err
		}
	}
}
