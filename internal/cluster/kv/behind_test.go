package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	clusterkv "github.com/weir-counter/weir/internal/cluster/kv"
)

// behindStore is a JetStream of which a replica that is behind answers reads.
type behindStore struct {
	jetstream.JetStream
	old jetstream.KeyValueEntry // what it has; nil: all
}

func (s *behindStore) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := s.JetStream.KeyValue(ctx, bucket)
	return &behindBucket{kv, s}, err
}

type behindBucket struct {
	jetstream.KeyValue
	store *behindStore
}

func (b *behindBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if b.store.old != nil {
		return b.store.old, nil
	}
	return b.KeyValue.Get(ctx, key)
}

// Who asks for a lease that is its own already, as after requests whose answers were lost, and reads an old one from a
// replica that is behind, has lost nothing: it has to ask again.
func TestAcquireFromAReplicaBehind(t *testing.T) {
	t.Parallel()
	node := singleNode(t)
	open(t, node, "n1", time.Minute)
	store := &behindStore{JetStream: node.JetStream()}
	b, err := clusterkv.OpenBucket(t.Context(), store, "leases", clusterkv.Self{Node: "n1", Origin: "1"}, time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	kv, err := store.KeyValue(t.Context(), "leases")
	if err != nil {
		t.Fatal(err)
	}
	old, err := kv.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), first); err != nil { // this answer does not arrive
		t.Fatal(err)
	}
	store.old = old
	if _, err := b.Acquire(t.Context(), "x"); !errors.Is(err, clusterkv.ErrTaken) {
		t.Errorf("%v, want %v", err, clusterkv.ErrTaken)
	}
	store.old = nil
	if _, err := b.Acquire(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}
