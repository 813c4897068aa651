package query

import (
	"math/bits"
	"slices"

	"github.com/weir-counter/weir/internal/replication"
)

// subquery is what one node is asked of a question about all keys.
type subquery struct {
	node string // "": this one
	in   replication.PartitionSet
}

// plan covers partitions with as few nodes as it can: what is held here, then of the
// others always the one that holds most of the rest (which needs at most ln n times
// as many as the best plan). Nodes whose circuit breaker is open come last. of says what a node may be
// asked, nil is all that Holders says it has. What nobody has is left.
func (r *Router) plan(rest replication.PartitionSet, of map[string]replication.PartitionSet) (subqueries []subquery, left replication.PartitionSet) {
	left = slices.Clone(rest)
	if own := both(left, replication.Of(r.engine).HeldPartitions()); own.Len() > 0 {
		subqueries, left = append(subqueries, subquery{in: own}), without(left, own)
	}
	fit, broken := map[string]replication.PartitionSet{}, map[string]replication.PartitionSet{}
	open := map[string]bool{}
	for partition := range r.partitions {
		if !left.Has(partition) {
			continue
		}
		for _, node := range r.cfg.Holders(partition) {
			if may := of[node]; node == r.cfg.Self || may != nil && !may.Has(partition) {
				continue
			}
			if _, known := open[node]; !known {
				open[node] = r.peers.breakerOpen(node, scan)
			}
			into := fit
			if open[node] {
				into = broken
			}
			if into[node] == nil {
				into[node] = replication.NewPartitionSet(r.partitions)
			}
			into[node].Add(partition)
		}
	}
	for _, nodes := range []map[string]replication.PartitionSet{fit, broken} {
		more, still := greedy(left, nodes)
		subqueries, left = append(subqueries, more...), still
	}
	return subqueries, left
}

// greedy takes the node with most of the rest, again and again; of equal ones the
// first by name.
func greedy(rest replication.PartitionSet, nodes map[string]replication.PartitionSet) (subqueries []subquery, left replication.PartitionSet) {
	for rest.Len() > 0 {
		best, most := "", 0
		for node, has := range nodes {
			n := common(rest, has)
			if n > most || n == most && n > 0 && node < best {
				best, most = node, n
			}
		}
		if most == 0 {
			break
		}
		in := both(rest, nodes[best])
		subqueries, rest = append(subqueries, subquery{best, in}), without(rest, in)
	}
	return subqueries, rest
}

func both(a, b replication.PartitionSet) replication.PartitionSet {
	c := slices.Clone(a)
	for i := range c {
		c[i] &= b[i]
	}
	return c
}

func without(a, b replication.PartitionSet) replication.PartitionSet {
	c := slices.Clone(a)
	for i := range c {
		c[i] &^= b[i]
	}
	return c
}

func common(a, b replication.PartitionSet) (n int) {
	for i := range a {
		n += bits.OnesCount64(a[i] & b[i])
	}
	return n
}

// first is the least partition of a set that has one.
func first(s replication.PartitionSet) int {
	for i, word := range s {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func all(partitions int) replication.PartitionSet {
	s := replication.NewPartitionSet(partitions)
	for i := range partitions {
		s.Add(i)
	}
	return s
}
