package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// sharing is a cluster whose nodes hold some partitions only, and the hits that all of
// them took.
type sharing struct {
	*cluster
	random *rand.Rand
	want   map[string]uint64
}

func newSharing(t *testing.T, nodes, replicas int) *sharing {
	c := newCluster(t, nodes)
	for i := range c.cfgs {
		c.cfgs[i].Replicas, c.cfgs[i].MoveAfter = replicas, time.Second
	}
	return &sharing{c, rand.New(rand.NewPCG(3, 4)), map[string]uint64{}}
}

// sideBySide calls do for 0 to n-1 on so many goroutines, each until its first error.
func sideBySide(t *testing.T, goroutines, n int, do func(goroutine, i int) error) {
	t.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for goroutine := range goroutines {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(goroutine, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

func (s *sharing) hit(hits int) {
	s.t.Helper()
	for range hits {
		node := s.nodes[s.random.IntN(len(s.nodes))]
		if node == nil {
			continue
		}
		key, n := fmt.Sprint("k", s.random.IntN(200)), 1+s.random.Uint64N(5)
		if _, err := node.e.HitAt(time.Unix(1_000_000+s.random.Int64N(300), 0), key, n); err != nil {
			s.t.Fatal(err)
		}
		s.want[key] += n
	}
}

// remove deletes a key at a node that holds it.
func (s *sharing) remove(key string) {
	s.t.Helper()
	for _, node := range s.nodes {
		if node != nil && node.e.Keyspace().Holds(node.e.Keyspace().PartitionOf(key)) {
			if _, err := node.e.Delete(key); err != nil {
				s.t.Fatal(err)
			}
			if err := node.j.Sync(s.t.Context()); err != nil { // hits from now on are after it
				s.t.Fatal(err)
			}
			delete(s.want, key)
			return
		}
	}
	s.t.Fatalf("nobody holds %s", key)
}

// settled waits until each partition is held by so many nodes, and each of these counts
// what it should.
func (s *sharing) settled(replicas int) {
	s.t.Helper()
	deadline := time.Now().Add(transporttest.Patience)
	for {
		wrong := s.wrong(replicas)
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(wrong)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *sharing) wrong(replicas int) string {
	at := time.Unix(1_000_300, 0)
	for partition := range engineConfig().Partitions {
		var nodes []string
		for i, node := range s.nodes {
			if node != nil && node.e.Keyspace().Holds(partition) {
				nodes = append(nodes, s.cfgs[i].Join.Node)
			}
		}
		if len(nodes) != replicas {
			return fmt.Sprintf("partition %d is held by %v", partition, nodes)
		}
	}
	for i, node := range s.nodes {
		if node == nil {
			continue
		}
		for k := range 200 {
			key := fmt.Sprint("k", k)
			if !node.e.Keyspace().Holds(node.e.Keyspace().PartitionOf(key)) {
				continue
			}
			if got, err := node.e.CountAt(at, key, time.Hour); err != nil || got.Lower != s.want[key] || got.Upper != s.want[key] {
				return fmt.Sprintf("node %d counts %v of %s, want %d, %v", i+1, got, key, s.want[key], err)
			}
		}
		// All others know what it holds.
		for _, other := range s.nodes {
			if other == nil {
				continue
			}
			list := other.j.Holders().List()
			if !slices.ContainsFunc(list, func(h membership.Holder) bool {
				return h.Node == s.cfgs[i].Join.Node && h.Here && slices.Equal(h.Held, node.e.HeldPartitions())
			}) {
				return fmt.Sprintf("what node %d holds is not known: %+v", i+1, list)
			}
		}
	}
	return ""
}

// Partitions are shared out, whatever comes, leaves and dies, while all nodes take hits,
// and each of a partition's holders counts each hit once.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newSharing(t, 3, 2)
	s.start()
	s.hit(2000)
	s.settled(2)
	for _, key := range []string{"k1", "k2", "k3"} {
		s.remove(key)
	}
	s.hit(2000)
	s.settled(2)

	// Snapshots of all partitions, by whoever holds them, and the journal is trimmed.
	for _, node := range s.nodes {
		node.j.checkpoints.Look(t.Context())
		node.j.checkpoints.StartRound()
	}
	transporttest.Eventually(t, "all partitions have a snapshot", func() bool {
		lists, _, err := s.nodes[0].j.store.ListSnapshots(t.Context(), engineConfig().Partitions)
		return err == nil && !slices.ContainsFunc(lists, func(list []record.StoredSnapshot) bool { return len(list) == 0 })
	})
	s.hit(500)

	// One dies and stays away: the others take what it held.
	if err := s.nodes[1].j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.nodes[1].crash()
	s.nodes[1] = nil
	s.hit(500)
	s.settled(2)

	// It comes back, and takes its share again.
	s.start()
	s.hit(500)
	s.settled(2)

	// One is replaced by an empty one.
	s.nodes[2].crash()
	s.nodes[2] = nil
	s.cfgs[2].Dir = t.TempDir()
	s.start()
	s.hit(500)
	s.settled(2)
	for i, node := range s.nodes {
		if st := node.j.Stats(); st.Divergence+st.Holes != 0 {
			t.Errorf("node %d: %+v", i+1, st)
		}
		sum := replication.NewPartitionSet(engineConfig().Partitions)
		for partition := range engineConfig().Partitions {
			if !node.e.Keyspace().Holds(partition) {
				sum.Add(partition)
			}
		}
		if sum.Len() == 0 {
			t.Errorf("node %d holds all", i+1)
		}
	}
}
