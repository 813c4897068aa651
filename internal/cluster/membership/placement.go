package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// This part says which nodes of a cluster should hold a partition (Rank), and which
// do (Registry).
//
// What a node holds is a fact that it writes itself, under its own name, into a
// JetStream KV bucket: after it took a partition, and after it released one. Others read
// it to find whom to ask, and to know that a partition may be released. An entry does not
// age: whether its node is alive is told by its heartbeats in the journal, which all
// nodes read in any case, so that a cluster at rest writes nothing here. Nor is there
// anything to fence: two nodes that hold a partition both count all of it, and one that
// no longer does says so when it is asked.

// PlacementEntry is what one node says of itself.
type PlacementEntry struct {
	Node   string                   `json:"-"`      // its name
	Origin string                   `json:"origin"` // 16 hex digits: of its data directory
	Epoch  uint64                   `json:"epoch"`  // of its process
	Held   replication.PartitionSet `json:"held"`   // never nil, which would be all
	At     time.Time                `json:"-"`      // when it said so, by the clock of the bucket's leader

	revision uint64 // in the bucket
}

// Says tells whether another entry says the same, whenever it did.
func (e PlacementEntry) Says(o PlacementEntry) bool {
	return e.Node == o.Node && e.Origin == o.Origin && e.Epoch == o.Epoch && slices.Equal(e.Held, o.Held)
}

// Registry is the entries of all nodes, as one node sees them. It is safe for many
// goroutines. It owns one, which reads changes until the connection is closed.
type Registry struct {
	kv     jetstream.KeyValue
	watch  jetstream.KeyWatcher
	log    *slog.Logger
	closed sync.WaitGroup

	mu      sync.Mutex
	entries map[string]PlacementEntry // by node; as many as there are nodes
}

// bucketBytes bounds the bucket: many thousand nodes with 256 partitions, some hundred with
// 65536.
const bucketBytes = 8 << 20

// OpenRegistry opens the bucket of that name, makes it if it is not there with as many replicas,
// and returns when all entries were read.
func OpenRegistry(ctx context.Context, js jetstream.JetStream, bucket string, replicas int, log *slog.Logger) (*Registry, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucket, Description: "Weir: which node holds which partitions", MaxBytes: bucketBytes, Replicas: replicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another made it
			kv, err = js.KeyValue(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	r := &Registry{kv: kv, log: log, entries: map[string]PlacementEntry{}}
	if r.watch, err = kv.WatchAll(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if err := r.readAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bucket %s: %w", bucket, err), r.watch.Stop())
	}
	r.closed.Go(func() { r.run(js) })
	return r, nil
}

// rewatchAfter is how long after a watch ended another one is tried.
const rewatchAfter = time.Second

// run reads changes until the connection is closed. A watch that ends before is begun
// again: what nodes hold must not stand still unseen.
func (r *Registry) run(js jetstream.JetStream) {
	for {
		for is := range r.watch.Updates() {
			r.apply(is)
		}
		for failed := error(nil); ; {
			if js.Conn().IsClosed() {
				return
			}
			r.log.Warn("the watch of which node holds what ended; restarting it", "error", failed)
			<-time.After(rewatchAfter)
			watch, err := r.kv.WatchAll(context.Background())
			if err == nil {
				r.watch = watch
				break
			}
			failed = err
		}
	}
}

// readAll reads what was there when the watch began.
func (r *Registry) readAll(ctx context.Context) error {
	for {
		select {
		case is, ok := <-r.watch.Updates():
			switch {
			case !ok:
				return errors.New("the connection was closed")
			case is == nil: // the watch is up to date
				return nil
			}
			r.apply(is)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// apply applies one change; nil is none.
func (r *Registry) apply(is jetstream.KeyValueEntry) {
	if is == nil {
		return
	}
	e := PlacementEntry{Node: is.Key(), At: is.Created(), revision: is.Revision()}
	if now := time.Now(); e.At.After(now) { // the clock of the leader was ahead: nobody stays for so long
		e.At = now
	}
	if is.Operation() == jetstream.KeyValuePut {
		if err := json.Unmarshal(is.Value(), &e); err != nil {
			r.log.Error("could not read what a node holds; it will get no queries", "node", e.Node, "error", err)
			return
		}
		if e.Held == nil {
			e.Held = replication.PartitionSet{}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case is.Revision() <= r.entries[e.Node].revision: // known: Put was quicker, or the watch is another
	case is.Operation() == jetstream.KeyValuePut:
		r.entries[e.Node] = e
	default:
		delete(r.entries, e.Node)
	}
}

// Put says what a node holds. Its own view has it at once.
func (r *Registry) Put(ctx context.Context, e PlacementEntry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.revision, err = r.kv.Put(ctx, e.Node, data); err != nil {
		return fmt.Errorf("say what node %s holds: %w", e.Node, err)
	}
	e.At, e.Held = time.Now(), slices.Clone(e.Held)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[e.Node] = e
	return nil
}

// Remove forgets a node that is gone for good.
func (r *Registry) Remove(ctx context.Context, node string) error { return r.kv.Purge(ctx, node) }

// Entries are those of all nodes, by name.
func (r *Registry) Entries() []PlacementEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]PlacementEntry, 0, len(r.entries))
	for _, e := range r.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b PlacementEntry) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// Wait returns when the goroutine has ended. To end the watch by itself would ask a server,
// which may be gone.
func (r *Registry) Wait() { r.closed.Wait() }

// Rank orders nodes by how much each should have what the name stands for, the first
// most of all: the same on every node that knows the same ones, evenly over many names,
// and without moving what others have when a node comes or goes (rendezvous hashing:
// Thaler, Ravishankar 1996). O(nodes log nodes).
func Rank(nodes []string, name string) []string {
	type ranked struct {
		node string
		hash uint64
	}
	list := make([]ranked, len(nodes))
	for i, node := range nodes {
		list[i] = ranked{node, xxhash.Sum64String(node + "\x00" + name)}
	}
	slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.hash, a.hash), cmp.Compare(a.node, b.node)) })
	order := make([]string, len(list))
	for i, r := range list {
		order[i] = r.node
	}
	return order
}

// ChooseHolders is the first of Rank; "" of none.
func ChooseHolders(nodes []string, name string) string {
	if order := Rank(nodes, name); len(order) > 0 {
		return order[0]
	}
	return ""
}

// RankFor is Rank of the nodes that may hold a partition.
func RankFor(nodes []string, partition int) []string {
	return Rank(nodes, "partition "+strconv.Itoa(partition))
}

// Preferred are the nodes that should hold a partition, of those given: at most so many. replicas
// 0: all of them. Where all should, they are in the order given.
func Preferred(nodes []string, partition, replicas int) []string {
	if replicas == 0 || len(nodes) <= replicas {
		return nodes
	}
	return RankFor(nodes, partition)[:replicas]
}
