package lease_test

import (
	"testing"

	"github.com/weir-counter/weir/journal/lease"
)

// Each node gets its share, and a node that goes moves its own leases only.
func TestChoose(t *testing.T) {
	if got := lease.Choose(nil, "a"); got != "" {
		t.Errorf("of no node: %q", got)
	}
	nodes := []string{"n1", "n2", "n3"}
	shares := map[string]int{}
	for _, name := range lease.GroupNames() {
		chosen := lease.Choose(nodes, name)
		shares[chosen]++
		if other := lease.Choose([]string{"n3", "n1", "n2"}, name); other != chosen {
			t.Errorf("%s: %s or %s, by the order of the nodes", name, chosen, other)
		}
		if now := lease.Choose([]string{"n1", "n2"}, name); chosen != "n3" && now != chosen {
			t.Errorf("%s moved from %s to %s when n3 went", name, chosen, now)
		}
	}
	for _, node := range nodes {
		if n := shares[node]; n < 2 || n > 9 {
			t.Errorf("%s has %d of %d leases", node, n, lease.Groups)
		}
	}
}

func TestEveryPartitionHasAGroup(t *testing.T) {
	names := map[string]bool{}
	for _, name := range lease.GroupNames() {
		names[name] = true
	}
	if len(names) != lease.Groups {
		t.Errorf("%d names of %d groups", len(names), lease.Groups)
	}
	for partition := range 1000 {
		if !names[lease.Group(partition)] {
			t.Errorf("partition %d is in %s", partition, lease.Group(partition))
		}
	}
}
