package lease_test

import (
	"testing"

	"github.com/weir-counter/weir/cluster/lease"
)

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
