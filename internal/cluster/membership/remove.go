package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
)

// running is the error for a node that is alive: it is not removed.
func running(format string, args ...any) error {
	return &api.Error{Code: api.CodeNodeHere, Field: "node", Message: "the node is running: " + fmt.Sprintf(format, args...)}
}

// Remove permanently removes a dead node: its vote and its
// replicas go (transport.Node.Remove), it is no holder, and no answer waits for its hits. Those that reached
// the journal stay counted. One that is alive is refused. If it comes back
// nevertheless, what it journals is counted, and it is waited for again.
//
// The other nodes stop waiting within some seconds.
func (m *Members) Remove(ctx context.Context, node string) (api.RemovedAnswer, error) {
	r := api.RemovedAnswer{Node: node, Origins: []string{}, Streams: []api.ClusterStream{}}
	if err := m.refuseAlive(ctx, node); err != nil {
		return r, err
	}
	// Its last hits may be in the journal and not yet here.
	if err := m.CatchUp(ctx); err != nil {
		return r, fmt.Errorf("journal: remove %s: %w", node, err)
	}
	var known bool
	var gone []replica.OriginStatus
	for _, o := range m.Replica.Origins(time.Now()) {
		if o.Node == node {
			known = true
			if !o.Left {
				gone = append(gone, o)
			}
		}
	}
	var err error
	if r.Voter, r.Streams, err = m.NATS.Remove(ctx, node); err != nil {
		return r, fmt.Errorf("journal: %w", err)
	}
	if !known && !r.Voter {
		return r, &api.Error{Code: api.CodeUnknownNode, Field: "node", Message: "no node is called " + units.Clip(node, 100) + ": GET /v1/cluster lists them"}
	}
	if err := m.Holders.Remove(ctx, node); err != nil {
		return r, fmt.Errorf("journal: remove %s: its vote is gone, but the other nodes still know it as a holder: ask again: %w", node, err)
	}
	for _, o := range gone {
		if err := m.recordRemoved(ctx, o); err != nil {
			return r, fmt.Errorf("journal: remove %s: its vote is gone, but the other nodes still wait for it: ask again: %w", node, err)
		}
		r.Origins = append(r.Origins, o.Origin)
	}
	m.Log.Warn("journal: removed a node permanently", "node", node, "origins", r.Origins, "voter", r.Voter)
	return r, nil
}

// refuseAlive returns an error of CodeNodeHere if a node answers, or if a message of it arrived lately.
func (m *Members) refuseAlive(ctx context.Context, node string) error {
	if node == m.Node {
		return running("%s is the one that you ask: stop it, and ask another", node)
	}
	const stop = "stop it before, or start it again if it is to stay"
	if o, is := m.speaks(node); is {
		return running("%s sent a message %v ago: %s", node, time.Since(o.Heard).Round(time.Millisecond), stop)
	}
	clocks, err := m.Clocks.Ask(ctx, len(m.Replica.Origins(time.Now())))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(clocks, func(c replica.Clock) bool { return c.Node == node }) {
		return running("%s answers: %s", node, stop)
	}
	if !m.NATS.Embedded() {
		return nil
	}
	seen, err := m.NATS.Status(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(seen.Servers, func(s transport.Server) bool { return s.Name == node }) ||
		slices.ContainsFunc(seen.Routes, func(r api.ClusterRoute) bool { return r.Node == node }) {
		return running("%s is connected (one that died without a word is so for up to 15 s): %s", node, stop)
	}
	return nil
}

const (
	// removedBucket has an entry for each origin that was removed: Unix ms, of its own
	// clock, up to which all its hits are counted. It says only that there were none
	// after that: of an origin that journals again it says nothing.
	removedBucket = "WEIR_REMOVED"

	// removedFor is how long an entry stays: an origin that is silent for longer is
	// not waited for anyway.
	removedFor = replica.ForgetAfter + time.Hour

	removedBytes = 1 << 20 // some thousand entries
)

// recordRemoved tells all nodes, those too that start later.
func (m *Members) recordRemoved(ctx context.Context, o replica.OriginStatus) error {
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) error {
		bucket, err := m.openRemoved(ctx)
		if err != nil {
			return err
		}
		_, err = bucket.Put(ctx, o.Origin, strconv.AppendInt(nil, o.AsOf.UnixMilli(), 10))
		return err
	})
	if err == nil {
		m.Replica.Removed(o.Origin, o.AsOf.UnixMilli())
	}
	return err
}

// openRemoved makes the bucket if it is not there. The bucket gets only as many replicas as nodes are up, because it
// is needed when a node is lost.
func (m *Members) openRemoved(ctx context.Context) (bucket jetstream.KeyValue, err error) {
	cfg := jetstream.KeyValueConfig{Bucket: removedBucket, Description: "Weir: origins that nobody waits for", TTL: removedFor, MaxBytes: removedBytes}
	for cfg.Replicas = m.NATS.Replicas(replica.Replicas); cfg.Replicas >= 1; cfg.Replicas-- {
		bucket, err = kv.Open(ctx, m.NATS.JetStream(), cfg, false)
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.ErrorCode != stream.CodeNoPeers {
			break
		}
	}
	return bucket, err
}

// takeRemovals is silent about what it can't have: those who are late stay so.
func (m *Members) takeRemovals(ctx context.Context, late []replica.OriginStatus) {
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	kv, err := m.NATS.JetStream().KeyValue(ctx, removedBucket)
	if err != nil {
		return // none was ever removed, or nobody answers
	}
	for _, o := range late {
		if o.Self {
			continue
		}
		at, err := removedUntil(ctx, kv, o.Origin)
		if err == nil && m.Replica.Removed(o.Origin, at) {
			m.Log.Warn("journal: a node was removed permanently; no longer waiting for it", "node", o.Node, "origin", o.Origin)
		}
	}
}

// WasRemoved reports whether an origin was removed from the cluster, with all its hits until at.
func WasRemoved(ctx context.Context, js jetstream.JetStream, origin uint64, at int64) bool {
	kv, err := js.KeyValue(ctx, removedBucket)
	if err != nil {
		return false
	}
	until, err := removedUntil(ctx, kv, fmt.Sprintf("%016x", origin))
	return err == nil && at <= until
}

func removedUntil(ctx context.Context, kv jetstream.KeyValue, origin string) (at int64, err error) {
	entry, err := kv.Get(ctx, origin)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(entry.Value()), 10, 64)
}
