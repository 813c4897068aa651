package holders

import (
	"slices"

	"github.com/weir-counter/weir/cluster/placement"
	"github.com/weir-counter/weir/internal/replication"
)

// surplusOf are the partitions of those that a node holds that it may release: of each, as many nodes
// as should hold it are here, hold it, and rank before this one. Nodes that decide at the same moment, each by a view
// that may be old, thus never release one partition below replicas (0: nothing is surplus): the
// first replicas of all that ever said that they hold it have too few before them to release it, however old their
// views are.
func surplusOf(list []Holder, node string, held replication.PartitionSet, partitions, replicas int) (surplus []int) {
	if replicas == 0 {
		return nil
	}
	for partition := range partitions {
		if held.Has(partition) && before(Of(list, partition), node, partition) >= replicas {
			surplus = append(surplus, partition)
		}
	}
	return surplus
}

// before is how many of some nodes rank before another one for a partition.
func before(nodes []string, node string, partition int) int {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
	return slices.Index(placement.RankFor(append(others, node), partition), node)
}

// loads tells whether a node that starts loads a partition, by what all have said that they hold: it should hold
// it, or held it in the life before and would not release it.
func loads(entries []placement.Entry, node string, partition, replicas int) bool {
	nodes, held, holders := []string{node}, false, []string(nil)
	for _, e := range entries {
		if e.Node != node {
			nodes = append(nodes, e.Node)
		}
		if e.Held.Has(partition) {
			holders = append(holders, e.Node)
			held = held || e.Node == node
		}
	}
	return slices.Contains(placement.Preferred(nodes, partition, replicas), node) ||
		held && before(holders, node, partition) < replicas
}
