package lease

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Groups is how many leases the partitions of a cluster share. A lease for each
// partition would be a write on every replica's disk for each: MEASURED
const Groups = 16

// Group is the name of the lease that covers a partition.
func Group(partition int) string { return fmt.Sprintf("partitions-%02d", partition%Groups) }

// GroupNames are those of all groups.
func GroupNames() []string {
	names := make([]string, Groups)
	for i := range names {
		names[i] = Group(i)
	}
	return names
}

// Choose is the node that should hold a lease, of those that are up: the same on
// every node that knows the same ones, about as many leases for each, and few
// that move when a node comes or goes (rendezvous hashing). "" of none.
func Choose(nodes []string, name string) string {
	var chosen string
	var highest uint64
	for _, node := range nodes {
		h := xxhash.Sum64String(node + "\x00" + name)
		if chosen == "" || h > highest || h == highest && node < chosen {
			chosen, highest = node, h
		}
	}
	return chosen
}
