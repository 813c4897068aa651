package transport_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// sizes waits until all nodes that run count so many voters.
func sizes(t *testing.T, c *transporttest.Cluster, want int) {
	t.Helper()
	transporttest.Eventually(t, "all nodes agree on the size", func() bool {
		for _, node := range c.Nodes {
			if node != nil && node.Size() != want {
				return false
			}
		}
		return true
	})
}

// keepers are the nodes that have the stream's replicas, once all are current.
func keepers(t *testing.T, c *transporttest.Cluster, node int) (names []string) {
	t.Helper()
	transporttest.Eventually(t, "three current replicas", func() bool { return current(t, c.Nodes[node]) == 3 })
	kept := streamOf(t, c.Nodes[node]).CachedInfo().Cluster
	names = []string{kept.Leader}
	for _, r := range kept.Replicas {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// A fourth node joins three that have never heard of it, with TLS and a secret. One
// of the three is lost and removed: its replica moves to the fourth, and quorums go
// without it. It comes back nevertheless, and disturbs nobody.
func TestAnotherNumberOfNodes(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	c := transporttest.New(t, 4, func(i int, cfg *transport.Config) {
		cfg.TLS = ours.issue(cfg.Node)
		if i < 3 {
			cfg.Peers = cfg.Peers[:3]
		}
	})
	c.Up(t, 0, 1, 2)
	sizes(t, c, 3)
	makeStream(t, c.Nodes[0])
	publish(t, c.Nodes[0], "a")
	c.Up(t, 3)
	sizes(t, c, 4)
	publish(t, c.Nodes[3], "b")

	lost := leader(t, c)
	rest := (lost + 1) % 3
	c.Down(lost)
	publish(t, c.Nodes[3], "c")
	had, now := remove(t, c, rest, lost)
	if !had || len(now) != 1 {
		t.Errorf("it had a vote: %v, streams: %v", had, now)
	}
	sizes(t, c, 3)
	if got := keepers(t, c, rest); !slices.Contains(got, c.Configs[3].Node) || slices.Contains(got, c.Configs[lost].Node) {
		t.Errorf("the stream is kept by %v, without %s", got, c.Configs[lost].Node)
	}
	if had, _ := remove(t, c, 3, lost); had {
		t.Error("it had a vote when it was removed again")
	}

	c.Up(t, lost)
	publish(t, c.Nodes[lost], "d")
	if got := contents(t, c.Nodes[lost]); len(got) != 4 {
		t.Errorf("the node that came back reads %v", got)
	}
}

// Of three one is lost and removed, and another takes its place: the stream has
// three replicas again.
func TestANodeIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	c := transporttest.New(t, 4, func(i int, cfg *transport.Config) {
		if i < 3 {
			cfg.Peers = cfg.Peers[:3]
		} else {
			cfg.Peers = cfg.Peers[:2]
		}
	})
	c.Up(t, 0, 1, 2)
	makeStream(t, c.Nodes[0])
	publish(t, c.Nodes[0], "a")
	c.Down(2)
	remove(t, c, 0, 2)
	sizes(t, c, 2)
	publish(t, c.Nodes[1], "b")
	c.Up(t, 3)
	sizes(t, c, 3)
	if got := keepers(t, c, 0); !slices.Contains(got, "n4") {
		t.Errorf("the stream is kept by %v", got)
	}
}

func remove(t *testing.T, c *transporttest.Cluster, on, lost int) (had bool, now []api.ClusterStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	had, now, err := c.Nodes[on].Remove(ctx, c.Configs[lost].Node)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range now {
		if strings.Contains(strings.Join(p.Nodes, " "), c.Configs[lost].Node) {
			t.Errorf("%s is kept by %v", p.Name, p.Nodes)
		}
	}
	return had, now
}

// Without a quorum nobody is removed, and the error says who is missing.
func TestRemoveWithoutAQuorum(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	c.Down(1, 2)
	transporttest.Eventually(t, "it says that n1 alone is running", func() bool { // it may not have seen the others go
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Nodes[0].Remove(ctx, "n3")
		if err == nil {
			t.Fatal("it was removed")
		}
		return strings.Contains(err.Error(), "nodes are running (n1)")
	})
}
