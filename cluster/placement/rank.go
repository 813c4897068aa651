package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

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

// Choose is the first of Rank; "" of none.
func Choose(nodes []string, name string) string {
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
