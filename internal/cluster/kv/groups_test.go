package kv_test

import (
	"testing"

	"github.com/weir-counter/weir/internal/cluster/kv"
)

func TestEveryPartitionHasAGroup(t *testing.T) {
	names := map[string]bool{}
	for _, name := range kv.GroupNames() {
		names[name] = true
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
