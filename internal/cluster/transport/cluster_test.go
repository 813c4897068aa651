package transport_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// makeStream makes a stream of as many replicas as there can be. It may fail
// while nodes are still on their way.
func makeStream(t testing.TB, node *transport.Node) {
	t.Helper()
	transporttest.Eventually(t, "a stream is made", func() bool {
		_, err := node.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "S", Subjects: []string{"s"}, Replicas: node.Replicas(3), Duplicates: 100 * time.Millisecond, AllowDirect: true,
		})
		return err == nil
	})
}

// publish publishes until it is acknowledged.
func publish(t testing.TB, node *transport.Node, data string) {
	t.Helper()
	transporttest.Eventually(t, "acknowledged", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := node.JetStream().Publish(ctx, "s", []byte(data))
		return err == nil
	})
}

// streamOf asks until it is answered: servers that meet again may lose a question.
func streamOf(t testing.TB, node *transport.Node) (stream jetstream.Stream) {
	t.Helper()
	transporttest.Eventually(t, "the stream is found", func() bool {
		var err error
		stream, err = node.JetStream().Stream(t.Context(), "S")
		return err == nil
	})
	return stream
}

// contents are the messages that a node's client reads, without repeats: a
// publish that timed out may be there anyway.
func contents(t testing.TB, node *transport.Node) map[string]bool {
	t.Helper()
	stream := streamOf(t, node)
	got := map[string]bool{}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		transporttest.Eventually(t, fmt.Sprint("message ", seq, " is read"), func() bool { // a replica that answers may be behind
			msg, err := stream.GetMsg(t.Context(), seq)
			if err == nil {
				got[string(msg.Data)] = true
			}
			return err == nil
		})
	}
	return got
}

// A stream that is made as soon as a new cluster is open has all of its replicas, even though
// servers give the cluster a smaller size in the moments after their first election.
func TestFoundersAreCountedOn(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	c.Nodes[0].SetSize(2)
	if got := c.Nodes[0].Replicas(3); got != 3 {
		t.Errorf("a node that was just opened would make a stream with %d replicas of 3", got)
	}
	makeStream(t, c.Nodes[0])
	if groups := c.Nodes[0].Groups(); !strings.Contains(groups, `"quorum_needed":2`) {
		t.Errorf("groups of the stream's replicas: %s", groups)
	}
	c.Down(0)
	c.Up(t, 0)
	c.Nodes[0].SetSize(2)
	if got := c.Nodes[0].Replicas(3); got != 2 {
		t.Errorf("a node that has streams counts on %d nodes, and knows of 2", got)
	}
}

// Three nodes; one is lost, two go on; it comes back and has everything; two are
// lost, and nothing is acknowledged any more.
func TestClusterGoesOnWithoutOneNode(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	if got := c.Nodes[0].Replicas(3); got != 3 {
		t.Fatalf("Replicas(3) = %d of three nodes", got)
	}
	makeStream(t, c.Nodes[0])
	sent := 0
	publishOn := func(nodes ...int) {
		for _, i := range nodes {
			publish(t, c.Nodes[i], fmt.Sprint(sent))
			sent++
		}
	}
	publishOn(0, 1, 2)

	lost := leader(t, c)
	rest := []int{(lost + 1) % 3, (lost + 2) % 3}
	c.Down(lost)
	publishOn(rest...)

	c.Up(t, lost)
	publishOn(0, 1, 2)
	transporttest.Eventually(t, "all replicas are current", func() bool { return current(t, c.Nodes[lost]) == 3 })
	for i, node := range c.Nodes {
		if got := contents(t, node); len(got) != sent {
			t.Errorf("%s has %d messages, %d were acknowledged", c.Configs[i].Node, len(got), sent)
		}
	}

	c.Down(rest...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	if _, err := c.Nodes[lost].JetStream().Publish(ctx, "s", []byte("alone")); err == nil {
		t.Error("one node of three acknowledged a message")
	}
	if took := time.Since(start); took > transporttest.Patience {
		t.Errorf("a publish without a quorum failed after %v, its deadline was 2s", took)
	}
}

// leader is the index of the stream's leader.
func leader(t testing.TB, c *transporttest.Cluster) int {
	t.Helper()
	found := -1
	transporttest.Eventually(t, "the stream has a leader", func() bool {
		for _, node := range c.Nodes {
			if node == nil {
				continue
			}
			stream, err := node.JetStream().Stream(t.Context(), "S")
			if err != nil {
				continue
			}
			for j, cfg := range c.Configs {
				if cfg.Node == stream.CachedInfo().Cluster.Leader && c.Nodes[j] != nil {
					found = j
				}
			}
			return found >= 0
		}
		return false
	})
	return found
}

// current is how many replicas have all messages.
func current(t testing.TB, node *transport.Node) int {
	stream, err := node.JetStream().Stream(t.Context(), "S")
	if err != nil || stream.CachedInfo().Cluster == nil || stream.CachedInfo().Cluster.Leader == "" {
		return 0
	}
	n := 1
	for _, replica := range stream.CachedInfo().Cluster.Replicas {
		if replica.Current && !replica.Offline {
			n++
		}
	}
	return n
}

func TestStatusOfACluster(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, func(_ int, cfg *transport.Config) { cfg.Secret = "" }) // on loopback it may be left out
	for i, node := range c.Nodes {
		var s transport.Status
		transporttest.Eventually(t, "three servers, two routes, a leader", func() bool {
			var err error
			s, err = node.Status(t.Context())
			return err == nil && len(s.Servers) == 3 && len(s.Routes) == 2 && s.Leader != "" && s.Size == 3
		})
		if s.Node != c.Configs[i].Node || s.Server != s.Node || s.Cluster != "test" || !s.Embedded {
			t.Errorf("status %+v", s)
		}
		for j, server := range s.Servers {
			if server.Name != c.Configs[j].Node || server.RTT <= 0 || !server.JetStream || server.Cluster != "test" || server.Version == "" {
				t.Errorf("server %+v", server)
			}
		}
		for _, route := range s.Routes {
			if route.Node == s.Node || route.Node == "" || route.Addr == "" {
				t.Errorf("route %+v", route)
			}
		}
	}
}

func TestOneNodeAlone(t *testing.T) {
	cfg := transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 30}
	node, err := transport.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	makeStream(t, node)
	publish(t, node, "a")
	s, err := node.Status(t.Context())
	if err != nil || s.Size != 1 || len(s.Servers) != 1 || s.Leader != s.Servers[0].Name {
		t.Errorf("status %+v, %v", s, err)
	}
	if node.Replicas(3) != 1 || !node.Embedded() {
		t.Error("one node has one replica")
	}
}

// A server that holds a lock for good does not answer: nothing is known for a while, and then it has failed.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	stands := standstill{slog.DiscardHandler, make(chan struct{})}
	node, err := transport.Open(t.Context(), transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 30, Logger: slog.New(stands)})
	if err != nil {
		t.Fatal(err)
	}
	if s, known := node.Store(); !known || s.Wrong != nil {
		t.Fatalf("known: %v, %+v", known, s)
	}
	stopped := make(chan error)
	go func() { stopped <- node.Stop() }()
	transporttest.Eventually(t, "it does not answer", func() bool { _, known := node.Store(); return !known })
	node.AgeQuestion()
	if s, known := node.Store(); !known || !s.Failed || s.Off {
		t.Errorf("known: %v, %+v", known, s)
	}
	close(stands.over)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	node.Close()
}

// standstill is a log in which a server that begins to shut down stands still, with its lock.
type standstill struct {
	slog.Handler
	over chan struct{}
}

func (standstill) Enabled(context.Context, slog.Level) bool { return true }

func (s standstill) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "Initiating Shutdown") {
		<-s.over
	}
	return nil
}
