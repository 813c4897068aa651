package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// This file says which nodes of a cluster should hold a partition (Rank), and which
// do (Registry).
//
// Each node writes what it holds, under its own name, into a JetStream KV bucket, after it took or released a
// partition. Others read it to find whom to ask, and to know that a partition may be released. An entry does not age.
// The heartbeats in the journal show whether its node is alive, and all nodes read them in any case. So a cluster at
// rest writes nothing here. No fencing is needed: two nodes that hold a partition both count all of it. A node that no
// longer holds it says so when it is asked.

// PlacementEntry is what one node says of itself.
type PlacementEntry struct {
	Node   string                   `json:"-"`      // its name
	Origin string                   `json:"origin"` // 16 hex digits: of its data directory
	Epoch  uint64                   `json:"epoch"`  // of its process
	Held   replication.PartitionSet `json:"held"`   // never nil, which would be all
	At     time.Time                `json:"-"`      // when it said so, by the clock of the bucket's leader

	Settings Settings `json:"settings,omitempty"`

	revision uint64 // in the bucket
}

// Says reports whether another entry says the same, whenever it did.
func (e PlacementEntry) Says(o PlacementEntry) bool {
	return e.Node == o.Node && e.Origin == o.Origin && e.Epoch == o.Epoch && slices.Equal(e.Held, o.Held) && maps.Equal(e.Settings, o.Settings)
}

// Registry is the entries of all nodes, as one node sees them. It is safe for many
// goroutines. It owns one, which reads changes until the connection is closed.
//
// It reads ranges of the bucket's messages, so that no server keeps anything for it.
type Registry struct {
	conn    *nats.Conn
	bucket  string
	kv      jetstream.KeyValue
	log     *slog.Logger
	upTo    uint64             // revision up to which the bucket was read; of the goroutine that reads
	changed concurrency.Signal // holds one: an entry was written
	done    context.Context
	closed  sync.WaitGroup

	mu      sync.Mutex
	entries map[string]PlacementEntry // by node; as many as there are nodes
}

const (
	// bucketBytes bounds the bucket: many thousand nodes with 256 partitions, some hundred with
	// 65536.
	bucketBytes = 8 << 20

	// registryEvery is how often the registry reads changes that it did not notice. registrySoon is the first pause
	// before it reads a change that it noticed. The pause doubles, because its replica may have the change later than
	// the leader.
	registryEvery = time.Second
	registrySoon  = 2 * time.Millisecond
)

// OpenRegistry opens the bucket of that name, makes it if it is not there with as many replicas,
// and returns when all entries were read.
func OpenRegistry(ctx context.Context, js jetstream.JetStream, bucket string, replicas int, log *slog.Logger) (*Registry, error) {
	made := jetstream.KeyValueConfig{Bucket: bucket, Description: "Weir: which node holds which partitions", MaxBytes: bucketBytes, Replicas: replicas}
	opened, err := kv.Open(ctx, js, made, true)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	r := &Registry{conn: js.Conn(), bucket: bucket, kv: opened, log: log, changed: concurrency.NewSignal(), entries: map[string]PlacementEntry{}}
	if err := r.readAll(ctx); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if err := r.follow(); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return r, nil
}

// readAll reads what the leader of the bucket has now.
func (r *Registry) readAll(ctx context.Context) error {
	status, err := r.kv.Status(ctx)
	if err != nil {
		return err
	}
	last := status.(*jetstream.KeyValueBucketStatus).StreamInfo().State.LastSeq
	if err := r.read(ctx); err != nil {
		return err
	}
	if r.upTo < last {
		return errors.Join(nats.ErrTimeout, fmt.Errorf("a replica has revision %d, and its leader %d", r.upTo, last))
	}
	return nil
}

func (r *Registry) subjects() string { return "$KV." + r.bucket + ".>" }

// follow begins to read changes, until the connection is closed.
func (r *Registry) follow() error {
	done, end := context.WithCancel(context.Background())
	sub, err := r.conn.Subscribe(r.subjects(), func(*nats.Msg) {
		r.changed.Raise()
	})
	if err != nil {
		end()
		return err
	}
	sub.SetClosedHandler(func(string) { end() })
	r.done = done
	r.closed.Go(r.run)
	return nil
}

func (r *Registry) run() {
	failing := false
	for pause := registrySoon; ; { // what was written since readAll
		select {
		case <-r.done.Done():
			return
		case <-r.changed:
			pause = registrySoon
		case <-time.After(pause):
			pause = min(2*pause, registryEvery)
		}
		before := r.upTo
		err := r.read(r.done)
		if r.done.Err() != nil {
			return
		}
		if err != nil && !failing {
			r.log.Warn("could not read which node holds which partitions; will retry", "error", err)
		}
		failing = err != nil
		if r.upTo > before {
			pause = registryEvery
		}
	}
}

// registryAtOnce is how many entries are asked for together.
const registryAtOnce = 256

// read reads what a replica has after upTo.
func (r *Registry) read(ctx context.Context) error {
	for {
		before := r.upTo
		pending, err := stream.GetRange(ctx, r.conn, "KV_"+r.bucket, r.subjects(), r.upTo+1, registryAtOnce, func(revision uint64, msg *nats.Msg) error {
			r.apply(revision, msg)
			r.upTo = revision
			return nil
		})
		if err != nil || pending == 0 || r.upTo == before {
			return err
		}
	}
}

func (r *Registry) apply(revision uint64, msg *nats.Msg) {
	written, err := time.Parse(time.RFC3339Nano, msg.Header.Get(jetstream.TimeStampHeaer))
	if now := time.Now(); err != nil || written.After(now) { // the clock of the leader was ahead: nobody stays for so long
		written = now
	}
	e := PlacementEntry{Node: strings.TrimPrefix(msg.Header.Get(jetstream.SubjectHeader), strings.TrimSuffix(r.subjects(), ">")), At: written, revision: revision}
	put := msg.Header.Get("KV-Operation") == ""
	if put {
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			r.log.Error("could not read which partitions a node holds; it will get no queries", "node", e.Node, "error", err)
			return
		}
		if e.Held == nil {
			e.Held = replication.PartitionSet{}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case revision <= r.entries[e.Node].revision: // known: Put was quicker
	case put:
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

// Entries returns the entries of all nodes, by name.
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

// Wait returns when the goroutine has ended, which is after the connection was closed.
func (r *Registry) Wait() { r.closed.Wait() }

// Rank orders nodes by their preference for a name, the first one most preferred (rendezvous hashing: Thaler,
// Ravishankar 1996). All nodes that know the same nodes compute the same order. Many names are spread evenly. A node
// that comes or goes moves nothing between the others. O(nodes log nodes).
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
