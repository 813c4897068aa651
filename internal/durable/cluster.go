package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

const leaseBucket = "WEIR_LEASES"

// beginCluster starts what only a clustered node needs: the answers to those
// who miss a flush, and the leases.
func (j *Journal) beginCluster(ctx context.Context) error {
	conn := j.server.Conn()
	if err := j.store.ServeMissing(j.own, j.replica.Sent); err != nil {
		return err
	}
	if err := j.others.highWater.Listen(); err != nil {
		return err
	}
	j.others.storeWatch = &membership.StoreWatch{Own: j.server.Store, Followers: j.store.Followers, Stores: &j.others.stores}
	if err := j.store.OnElection(j.elected.wake); err != nil {
		return err
	}
	j.others.beats = &membership.Beats{
		Conn: conn, Log: j.log, Own: j.own, Node: j.cfg.Join.Node, Promise: replica.Promised(j.cfg.FlushEvery), Written: j.flusher.Written, Replica: j.replica, Stores: &j.others.stores,
	}
	if err := j.others.beats.Listen(); err != nil {
		return err
	}
	j.others.fresh = membership.NewFreshness(membership.FreshnessConfig{
		Conn: conn, Log: j.log, Origin: j.own.Origin, Node: j.cfg.Join.Node, Now: j.engine.Now,
		Flushes: j.waiters, HighWater: j.others.highWater, Origins: j.Origins, Next: j.replica.Next, AwaitFollowed: j.awaitFollowed,
	})
	if err := j.others.fresh.Listen(); err != nil {
		return err
	}
	if err := j.clocks.Serve(); err != nil {
		return err
	}
	j.others.members = &membership.Members{
		NATS: j.server, Log: j.log, Node: j.cfg.Join.Node, Origin: j.own.Origin, Replica: j.replica, Clocks: j.clocks, Holders: j.others.holders,
		CatchUp: j.CatchUp, Trims: j.checkpoints.Trims,
	}
	j.others.keeper = &membership.Keeper{
		View: j.others.holders, Own: j.own, Promise: replica.Promised(j.cfg.FlushEvery), Replica: j.replica, Store: j.store, Flushes: j.waiters,
	}
	if err := j.others.members.RefuseNamesake(ctx); err != nil {
		return err
	}
	if err := j.sayHello(ctx); err != nil {
		return err
	}
	j.others.endBeats = j.others.beats.Begin(ctx)
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		j.restores.Claims.Leases, err = kv.OpenBucket(ctx, j.server.JetStream(), leaseBucket, kv.Self{Node: j.cfg.Join.Node, Origin: j.Origin()}, kv.DefaultTTL, j.server.Replicas(replica.Replicas))
		return err
	})
	if err != nil {
		return err
	}
	j.others.lease = kv.HoldLease(j.restores.Claims.Leases, checkpoint.Lease, j.log)
	return nil
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
func replaced(damaged []transport.Damage) (found []record.Finding) {
	for _, damage := range damaged {
		found = append(found, record.Finding{Where: damage.Path, What: damage.What, Cost: "none: what is missing comes from the log of the replicas or from the other nodes", Harmless: true})
	}
	return found
}

// sayHello journals the first flush of this life, and applies all before it. With it all nodes know where topics are counted of which this
// directory has hits: none reads them from their beginning, also while the hits are still to come.
func (j *Journal) sayHello(ctx context.Context) error {
	var sequence uint64
	began := time.Now()
	for _, data := range j.replica.Hello(began, j.carried...) {
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
	if node, is := j.replica.BegunByOther(j.carried); is {
		return fmt.Errorf("node %s read a topic (--from) from its beginning, of which this directory has hits: they would count twice, so nothing of it was counted. "+
			"Start all nodes with empty directories but this one, and this one no later than the others; or this one with an empty directory too, without its hits", node)
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
// If all other nodes stop too, there may be nobody left who reads it.
func (j *Journal) leave(ctx context.Context) {
	if !j.cfg.clustered() {
		return
	}
	j.leaving.Store(true)
	accompanied := j.server.Accompanied
	if j.isGone() { // its server may lead a stream that it can't write any more, until it ends
		accompanied = func() bool { return false }
	}
	if accompanied() {
		j.stepDown(ctx)
	}
	if err := tell(ctx, leaveTimeout, j.Sync, accompanied); err != nil {
		j.log.Warn("journal: could not notify the other nodes that this one stops; they report it as late until it returns. No hit is lost", "error", err)
		return
	}
	if j.server.Embedded() {
		_ = concurrency.Sleep(ctx, linger)
	}
}

// stepDown has another node lead the stream of flushes before this one stops: an election without it takes seconds, in which
// nothing is written.
func (j *Journal) stepDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	elected := j.elected.await()
	if err := j.store.StepDown(ctx, j.cfg.Join.Node); err != nil {
		j.log.Info("journal: another node could not be asked to lead the journal; it is elected when this one has stopped", "error", err)
		return
	}
	if j.store.Leader() != j.cfg.Join.Node {
		return
	}
	select {
	case <-elected:
	case <-ctx.Done():
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

// statusTime bounds AddNodes: nobody may answer.
const statusTime = time.Second

// AddNodes adds to an answer what this node sees of its cluster. It asks all that answer, for a second at most. What could
// not be had is left out, and the problems say why. A node without others asks nothing.
func (j *Journal) AddNodes(ctx context.Context, a *api.ClusterAnswer) {
	a.Mode, a.Size, a.Journal = "alone", 1, j.clusterJournal()
	if !j.cfg.clustered() {
		return
	}
	a.Mode, a.Replicas, a.Unheld = "nats", j.cfg.Replicas, j.Unheld()
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	var asking sync.WaitGroup
	var errs [3]error
	var s transport.Status
	var bytes uint64
	asking.Go(func() { s, errs[0] = j.server.Status(ctx) })
	asking.Go(func() { a.Journal.First, a.Journal.Last, bytes, errs[1] = j.store.Bounds(ctx) })
	asking.Go(func() { a.SnapshotsBy, errs[2] = j.others.lease.Who(ctx) })
	asking.Go(func() { a.Nodes = j.Nodes(ctx) })
	asking.Wait()
	if isGone(j.Origins(), a.SnapshotsBy) {
		a.SnapshotsBy = "" // its lease is only not over yet
	}
	a.Cluster, a.Node, a.Size, a.Leader = s.Cluster, s.Node, s.Size, s.Leader
	a.Routes = append(a.Routes, s.Routes...)
	for _, one := range s.Servers {
		a.Servers = append(a.Servers, api.ClusterServer{Name: one.Name, Version: one.Version, JetStream: one.JetStream, RTTS: one.RTT.Seconds()})
	}
	a.Journal.Bytes = max(int64(bytes), a.Journal.Bytes)
	if err := errors.Join(errs[:]...); err != nil {
		a.Problems = append(a.Problems, strings.Split(err.Error(), "\n")...) // one line of a joined error each
	}
	if s.Embedded {
		a.Mode = "cluster"
		if s.Leader == "" {
			a.Problems = append(a.Problems, fmt.Sprintf("JetStream has no leader: more than half of %d nodes must reach each other for hits to become durable", s.Size))
		}
	}
}

// Nodes are the nodes that count together, this one included, by name; those that left for good are among them for a
// while. It asks the others for their clocks, within 300 ms: a node that does not answer has none.
func (j *Journal) Nodes(ctx context.Context) (nodes []api.ClusterNode) {
	clocks, _ := j.clocks.All(ctx) // the connection is closed otherwise: this process ends
	held := map[string]int{}
	for _, h := range j.Holders().List() {
		held[h.Origin] = h.Held.Len()
	}
	now := time.Now()
	for _, o := range j.Origins() {
		n := api.ClusterNode{
			Node: o.Node, Origin: o.Origin, Epoch: o.Epoch, Self: o.Self, Left: o.Left, Late: o.Late, Why: string(o.Why), Held: held[o.Origin],
			AsOf: api.Millis(o.AsOf), Heard: api.Millis(o.Heard),
		}
		if !o.Self && !o.Left { // of a node that left nothing is to come
			n.LagS = now.Sub(o.AsOf).Seconds()
		}
		if i := slices.IndexFunc(clocks, func(c replica.Clock) bool { return c.Origin == o.Origin }); i >= 0 {
			ahead, wrong := clocks[i].Skew.Seconds(), (clocks[i].RTT / 2).Seconds()
			n.SkewS, n.SkewErrorS = &ahead, &wrong
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// isGone reports whether a node has stopped, or is silent in all its directories.
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

// Origins says of each origin how much of it is counted here, by name.
func (j *Journal) Origins() []replica.OriginStatus { return j.replica.Origins(time.Now()) }

// LateOrigins returns until when the hits of all nodes are counted here, and which
// nodes are late: what these have counted since may be missing. This node is among them
// where its own flushes do not come back, so that nothing is known of nodes that it has never
// received anything from. A node without others has all hits, always.
func (j *Journal) LateOrigins() (asOf time.Time, late []replica.OriginStatus) {
	return j.replica.Freshness(time.Now())
}

// Freshness is LateOrigins as answers have it.
func (j *Journal) Freshness() api.Freshness {
	asOf, late := j.LateOrigins()
	f := api.Freshness{AsOf: api.Millis(asOf)}
	for _, o := range late {
		f.Late = append(f.Late, api.Late{Node: o.Node, Since: api.Millis(o.AsOf)})
	}
	return f
}

// Fresh returns when all hits are counted here that any node took before the call. It returns the last message of the journal that has some
// of them, and the latest of the nodes' clocks. If ctx
// ends before, the error is an *api.Error of CodeNotFresh. A node without others has all hits, always.
func (j *Journal) Fresh(ctx context.Context) (upTo uint64, now time.Time, err error) {
	if !j.cfg.clustered() {
		return 0, j.engine.Now(), nil
	}
	m, err := j.others.fresh.Await(ctx)
	return m.UpTo, m.Now, err
}

// ClockSound reports whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (j *Journal) ClockSound() bool { return j.clocks.Sound() }

// Holders knows who holds which partitions. Only for a node in a cluster.
func (j *Journal) Holders() *membership.View { return j.others.holders }

// holdersOfParts is what checkpoints need of them.
func (j *Journal) holdersOfParts() checkpoint.Holders {
	list, partitions := j.Holders().List(), j.engine.Config().Partitions
	return checkpoint.Holders{
		Parted: slices.ContainsFunc(list, func(h membership.Holder) bool { return h.Held.Len() < partitions }),
		Of:     func(partition int) []string { return membership.HoldersOf(list, partition) },
	}
}

// Unheld is how many partitions no running node holds: nobody can answer for them. Only for a node in a cluster.
func (j *Journal) Unheld() int { return j.others.holders.Unheld() }

// Remove permanently removes a dead node (membership.Members). Only for a node in a cluster.
func (j *Journal) Remove(ctx context.Context, node string) (api.RemovedAnswer, error) {
	return j.others.members.Remove(ctx, node)
}

// others is what a node needs in addition to its journal to count together with other nodes. highWater
// and holders are there before the journal is loaded, all others once this node has joined
// (beginCluster).
type others struct {
	highWater  *membership.HighWater
	holders    *membership.View
	keeper     *membership.Keeper
	members    *membership.Members
	fresh      *membership.Freshness
	storeWatch *membership.StoreWatch
	stores     replica.Stores // whose replicas store
	lease      *kv.LeaseHolder
	beats      *membership.Beats
	endBeats   func()
}

// loops are what runs on goroutines of its own until its context is done.
func (o *others) loops() []func(context.Context) {
	return []func(context.Context){o.keeper.Run, o.members.Run, o.storeWatch.Run, o.fresh.Run, o.fresh.RunAnswers}
}

// leave gives back what beginCluster took, also if it failed.
func (o *others) leave(log *slog.Logger) {
	if o.endBeats != nil {
		o.endBeats()
	}
	if o.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterAskTimeout)
	defer cancel()
	if err := o.lease.Close(ctx); err != nil {
		log.Warn("journal: could not release leases; they will expire", "error", err)
	}
}

// noteClockSet remembers that the time of day was set, before the flush is cut that tells times
// by it. The flusher calls it. It returns true if the time was set. The flush is then to be written even if empty: it separates earlier
// snapshots from later ones.
func (j *Journal) noteClockSet() bool {
	by, wasSet := j.flusher.NoteClockSet()
	if wasSet || j.setUnsaved {
		m := j.manifest
		m.ClockSet = j.replica.ClockSets()
		err := m.Save(j.cfg.Dir)
		if err != nil && !j.setUnsaved {
			j.log.Error("journal: could not record in the manifest that the clock was set; will retry. If the process crashes before, usage of limits may expire early", "by", by, "error", err)
		}
		j.setUnsaved = err != nil
	}
	return wasSet
}
