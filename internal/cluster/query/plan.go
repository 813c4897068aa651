package query

import (
	"math/bits"
	"slices"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// plan adds the next nodes to ask for a flight, if there are any. A single key goes to the best holder that has not failed in
// this round. A wide question goes to as few nodes as it can: what is held here, then always the node that holds most of
// the rest. That needs at most ln n times as many as the best plan. Nodes whose circuit breaker is open come last.
func (r *Router) plan(f *flight, to map[string][]subquery) {
	if !f.q.wide() {
		if node, ok := r.holder(f); ok {
			to[node] = append(to[node], subquery{f, &f.q})
			f.asking = 1
		}
		return
	}
	add := func(node string, in replication.PartitionSet) {
		q := f.q
		q.in = in
		to[node] = append(to[node], subquery{f, &q})
		f.asking++
	}
	left := f.rest
	if own := both(left, r.engine.HeldPartitions()); own.Len() > 0 {
		add("", own)
		left = without(left, own)
	}
	fit, broken := r.candidates(left, f.failed)
	for _, nodes := range []map[string]replication.PartitionSet{fit, broken} {
		for node := most(left, nodes); node != ""; node = most(left, nodes) {
			add(node, both(left, nodes[node]))
			left = without(left, nodes[node])
		}
	}
}

// holder returns the best holder of a key that has not failed in this round. The order is this node, nodes whose circuit
// breaker is closed, and others.
func (r *Router) holder(f *flight) (string, bool) {
	partition, broken := r.engine.Keyspace().PartitionOf(f.q.key), ""
	if r.engine.Keyspace().Holds(partition) {
		return "", true
	}
	for _, node := range r.cfg.Holders(partition) {
		_, failed := f.failed[node]
		switch {
		case node == r.cfg.Self || failed:
		case !r.peers.breakerOpen(node, f.q.class()):
			return node, true
		case broken == "":
			broken = node
		}
	}
	return broken, broken != ""
}

// candidates returns which of the partitions other nodes hold: first nodes whose circuit breaker is closed, then others. failed has
// what nodes that failed may still be asked.
func (r *Router) candidates(partitions replication.PartitionSet, failed map[string]replication.PartitionSet) (fit, broken map[string]replication.PartitionSet) {
	fit, broken = map[string]replication.PartitionSet{}, map[string]replication.PartitionSet{}
	open := map[string]bool{}
	for partition := range r.partitions {
		if !partitions.Has(partition) {
			continue
		}
		for _, node := range r.cfg.Holders(partition) {
			if node == r.cfg.Self || !failed[node].Has(partition) { // nil has all
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
	return fit, broken
}

// most returns the node that has most of some partitions, of equal ones the first by name; "": none has any.
func most(partitions replication.PartitionSet, nodes map[string]replication.PartitionSet) (best string) {
	most := 0
	for node, has := range nodes {
		n := both(partitions, has).Len()
		if n > most || n == most && n > 0 && node < best {
			best, most = node, n
		}
	}
	return best
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

// first returns the least partition of a set that has one.
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
