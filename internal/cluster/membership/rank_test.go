package membership_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/membership"
)

// Each node gets its share, and a node that goes moves its own leases only.
func TestChoose(t *testing.T) {
	if got := membership.ChooseHolders(nil, "a"); got != "" {
		t.Errorf("of no node: %q", got)
	}
	nodes := []string{"n1", "n2", "n3"}
	shares := map[string]int{}
	const groups = 16
	for group := range groups {
		name := fmt.Sprintf("partitions-%02d", group)
		chosen := membership.ChooseHolders(nodes, name)
		shares[chosen]++
		if other := membership.ChooseHolders([]string{"n3", "n1", "n2"}, name); other != chosen {
			t.Errorf("%s: %s or %s, by the order of the nodes", name, chosen, other)
		}
		if now := membership.ChooseHolders([]string{"n1", "n2"}, name); chosen != "n3" && now != chosen {
			t.Errorf("%s moved from %s to %s when n3 went", name, chosen, now)
		}
	}
	for _, node := range nodes {
		if n := shares[node]; n < 2 || n > 9 {
			t.Errorf("%s has %d of %d leases", node, n, groups)
		}
	}
}

// Of more nodes than hold a name, each is in as many places as any other, and one that
// comes takes places of others without moving the rest.
func TestRank(t *testing.T) {
	nodes := []string{"n1", "n2", "n3", "n4", "n5"}
	const names, replicas = 256, 2
	places := map[string]int{}
	for name := range names {
		now := membership.Rank(nodes, fmt.Sprint("p", name))[:replicas]
		before := membership.Rank(nodes[:4], fmt.Sprint("p", name))[:replicas]
		for _, node := range now {
			places[node]++
			if node != "n5" && !slices.Contains(before, node) {
				t.Errorf("p%d went from %v to %v when n5 came", name, before, now)
			}
		}
	}
	for _, node := range nodes {
		if mean := names * replicas / len(nodes); places[node] < mean*3/4 || places[node] > mean*5/4 {
			t.Errorf("%s has %d of %d places, %d in the mean", node, places[node], names*replicas, mean)
		}
	}
}
