package kv_test

import (
	"testing"

	"github.com/weir-counter/weir/internal/cluster/kv"
)

func TestEveryPartitionHasAGroup(t *testing.T) {
	names := map[string]bool{}
	for group := range kv.Groups {
		names[kv.Group(group)] = true
	}
	if len(names) != kv.Groups {
		t.Errorf("%d names of %d groups", len(names), kv.Groups)
	}
	for partition := range 1000 {
		if !names[kv.Group(partition)] {
			t.Errorf("partition %d is in %s", partition, kv.Group(partition))
		}
	}
}

// groupNames are the leases of all groups.
func groupNames() (names []string) {
	for group := range kv.Groups {
		names = append(names, kv.Group(group))
	}
	return names
}
