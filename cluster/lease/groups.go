package lease

import "fmt"

// Groups is how many leases the partitions of a cluster share, 16 of 256 each.
//
// One for each partition would be simpler, but a renewal is a synced write on
// each replica: on three servers 0.5 ms of CPU and 13 KiB in 15 writes. 256 of
// them every 3 s took a tenth of a core and made the slowest flushes twice as
// slow; a disk that needs 5 ms for a sync would do little else. 16 every 10 s
// were not to be seen. (A single lease for each node, and a rule who of them does
// what, would be fewer still, but then no token orders two nodes that do the same
// partition.)
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
