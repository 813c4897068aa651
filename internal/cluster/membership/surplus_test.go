package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/engine/replication"
)

const testPartitions = 32

func allOf(partitions int) replication.PartitionSet {
	all := replication.NewPartitionSet(partitions)
	for p := range partitions {
		all.Add(p)
	}
	return all
}

// Nodes that hold too much and decide at the same moment, by the same view, leave each partition as many
// holders as it should have: those that should hold it most of all.
func TestReleasedAtTheSameMoment(t *testing.T) {
	t.Parallel()
	nodes := []string{"n1", "n2", "n3", "n4"}
	for replicas := 1; replicas <= len(nodes); replicas++ {
		var list []Holder
		for _, n := range nodes {
			list = append(list, Holder{PlacementEntry: PlacementEntry{Node: n, Held: allOf(testPartitions)}, Here: true, Staying: true})
		}
		left := make([][]string, testPartitions)
		for _, h := range list {
			surplus := surplusOf(list, h.Node, h.Held, testPartitions, replicas)
			for p := range testPartitions {
				if !slices.Contains(surplus, p) {
					left[p] = append(left[p], h.Node)
				}
			}
		}
		for p, got := range left {
			want := slices.Sorted(slices.Values(Preferred(nodes, p, replicas)))
			if !slices.Equal(got, want) {
				t.Errorf("partition %d, %d replicas: left with %v, want %v", p, replicas, got, want)
			}
		}
	}
}

// Whatever nodes hold, take and release, by views that are as old as they like, no partition is released below
// replicas.
func TestReleasedByOldViews(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		replicas := 1 + rnd.IntN(3)
		truth := make([]Holder, replicas+1+rnd.IntN(4))
		for i := range truth {
			truth[i] = Holder{PlacementEntry: PlacementEntry{Node: fmt.Sprint("n", i), Held: replication.NewPartitionSet(testPartitions)}, Here: true, Staying: true}
			for p := range testPartitions {
				if i < replicas || rnd.IntN(2) == 0 {
					truth[i].Held.Add(p)
				}
			}
		}
		look := func() (view []Holder) {
			for _, h := range truth {
				h.Held = slices.Clone(h.Held)
				view = append(view, h)
			}
			return view
		}
		views := make([][]Holder, len(truth))
		for step := range 20 * len(truth) {
			i := rnd.IntN(len(truth))
			me := &truth[i]
			switch {
			case views[i] == nil || rnd.IntN(3) == 0:
				views[i] = look()
			case rnd.IntN(3) == 0:
				me.Held.Add(rnd.IntN(testPartitions))
			default:
				for _, p := range surplusOf(views[i], me.Node, me.Held, testPartitions, replicas) {
					me.Held.Remove(p)
					if n := len(HoldersOf(truth, p)); n < replicas {
						t.Fatalf("seed %d, step %d: %s released partition %d, which %d hold now, want %d", seed, step, me.Node, p, n, replicas)
					}
				}
			}
		}
	}
}

// A node that was stopped before another one took over what it held loads that again.
func TestLoadsWhatNobodyElseHolds(t *testing.T) {
	t.Parallel()
	const partition = 7
	nodes := RankFor([]string{"n1", "n2", "n3"}, partition)
	none, all := replication.NewPartitionSet(testPartitions), allOf(testPartitions)
	for _, c := range []struct {
		held  []replication.PartitionSet // by rank: nil, it has said nothing yet
		node  int
		loads bool
	}{
		{[]replication.PartitionSet{nil, nil, nil}, 0, true},
		{[]replication.PartitionSet{none, all, none}, 0, true},
		{[]replication.PartitionSet{none, all, none}, 1, true}, // the first has not taken it over yet
		{[]replication.PartitionSet{all, all, none}, 1, false},
		{[]replication.PartitionSet{none, none, none}, 1, false},
		{[]replication.PartitionSet{none, all, all}, 2, false},
	} {
		var entries []PlacementEntry
		for i, held := range c.held {
			if held != nil {
				entries = append(entries, PlacementEntry{Node: nodes[i], Held: held})
			}
		}
		if got := loads(entries, nodes[c.node], partition, 1); got != c.loads {
			t.Errorf("held %v: node %d loads it: %v, want %v", c.held, c.node, got, c.loads)
		}
	}
}
