package transport_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// kept makes a stream of three replicas with some messages, and has all nodes settled.
func kept(t *testing.T, c *transporttest.Cluster) {
	t.Helper()
	transporttest.Eventually(t, "a stream is made", func() bool { // a node may still be on its way
		_, err := c.Nodes[0].JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		return err == nil
	})
	for range 20 {
		publish(t, c.Nodes[0], strings.Repeat("x", 1000))
	}
	settle(t, c)
}

func settle(t *testing.T, c *transporttest.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		transporttest.Eventually(t, "all replicas are current", func() bool { return n.Settled(t.Context()) == nil })
	}
}

// Nodes that keep no replica of a stream miss nothing, and all start again.
func TestFiveNodesStartAgain(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 5, nil)
	kept(t, c)
	all := []int{0, 1, 2, 3, 4}
	c.Down(all...)
	c.Up(t, all...)
	for i, n := range c.Nodes {
		if d := n.Damage(); len(d) > 0 {
			t.Errorf("n%d: %v", i+1, d)
		}
	}
}

// A node whose replica is damaged waits for others that have all, and where there are not
// enough moves nothing.
func TestSetAsideOnlyBesideOthers(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	kept(t, c)
	c.Down(0, 1, 2)
	dir := c.Configs[0].Dir
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream/$G/streams/S/msgs/*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	data, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(blocks[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "alone it says that nothing was changed", func() bool { // it may take longer to find the damage
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		n, err := transport.Open(ctx, c.Configs[0])
		if err == nil {
			n.Close()
			t.Fatal("it joined alone")
		}
		return strings.Contains(err.Error(), "nothing of it was changed")
	})
	if quarantined, _ := transport.Quarantined(dir); len(quarantined) > 0 {
		t.Errorf("in quarantine: %v", quarantined)
	}
	if is, err := os.ReadFile(blocks[0]); err != nil || string(is) != string(data) {
		t.Errorf("the block was changed: %v", err)
	}

	c.Up(t, 1, 2)
	for _, n := range c.Nodes[1:] {
		if err := n.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.Up(t, 0)
	if d := c.Nodes[0].Damage(); len(d) == 0 {
		t.Error("nothing was found")
	}
	if quarantined, _ := transport.Quarantined(dir); len(quarantined) != 1 {
		t.Errorf("in quarantine: %v", quarantined)
	}
	transporttest.Eventually(t, "it has all again", func() bool {
		stream, err := c.Nodes[0].JetStream().Stream(t.Context(), "S")
		return err == nil && stream.CachedInfo().State.Msgs == 20
	})
	settle(t, c)
	if quarantined, _ := transport.Quarantined(dir); len(quarantined) > 0 {
		t.Errorf("still there: %v", quarantined)
	}
}
