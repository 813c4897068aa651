package member

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

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
		kv, err := m.openRemoved(ctx)
		if err != nil {
			return err
		}
		_, err = kv.Put(ctx, o.Origin, strconv.AppendInt(nil, o.AsOf.UnixMilli(), 10))
		return err
	})
	if err == nil {
		m.Replica.Removed(o.Origin, o.AsOf.UnixMilli())
	}
	return err
}

// openRemoved makes the bucket if it is not there, with as many replicas as nodes are up:
// that one is lost is why it is needed.
func (m *Members) openRemoved(ctx context.Context) (kv jetstream.KeyValue, err error) {
	js := m.NATS.JetStream()
	if kv, err = js.KeyValue(ctx, removedBucket); !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	for n := m.NATS.Replicas(replica.Replicas); n >= 1; n-- {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: removedBucket, Description: "Weir: origins that nobody waits for", TTL: removedFor, MaxBytes: removedBytes, Replicas: n,
		})
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.ErrorCode != stream.CodeNoPeers {
			break
		}
	}
	return kv, err
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
		entry, err := kv.Get(ctx, o.Origin)
		if err != nil {
			continue
		}
		at, err := strconv.ParseInt(string(entry.Value()), 10, 64)
		if err == nil && m.Replica.Removed(o.Origin, at) {
			m.Log.Warn("journal: a node was removed permanently; no longer waiting for it", "node", o.Node, "origin", o.Origin)
		}
	}
}

// WasRemoved tells whether an origin was removed from the cluster, with all its hits until at.
func WasRemoved(ctx context.Context, js jetstream.JetStream, origin uint64, at int64) bool {
	kv, err := js.KeyValue(ctx, removedBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || err != nil {
		return false
	}
	entry, err := kv.Get(ctx, fmt.Sprintf("%016x", origin))
	if err != nil {
		return false
	}
	until, err := strconv.ParseInt(string(entry.Value()), 10, 64)
	return err == nil && at <= until
}
