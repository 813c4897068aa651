// Package transporttest starts real clusters within a test's process, on loopback.
package transporttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
	_ "unsafe" // for go:linkname: nats-server has no settings for these

	"github.com/weir-counter/weir/internal/cluster/transport"
)

// Secret is the secret of every cluster here.
const Secret = "a secret that is used by tests only"

// Patience is how long a test waits for what should take a second, on a machine
// that does other things too.
const Patience = 3 * time.Minute

// Cluster is nodes n1, n2... of one cluster. A node that was stopped is nil.
type Cluster struct {
	Configs []transport.Config
	Nodes   []*transport.Node
}

// New configures a cluster without starting it. change, if not nil, may change
// each node's configuration.
func New(t testing.TB, nodes int, change func(i int, cfg *transport.Config)) *Cluster {
	t.Helper()
	c := &Cluster{Nodes: make([]*transport.Node, nodes)}
	addrs := Addrs(t, nodes)
	for i := range nodes {
		cfg := transport.Config{
			Dir: t.TempDir(), MaxBytes: 1 << 30,
			Cluster: "test", Node: fmt.Sprintf("n%d", i+1), Addr: addrs[i], Peers: addrs,
			Secret: Secret,
			Logger: Logger(t, slog.LevelError).With("on", fmt.Sprintf("n%d", i+1)),
		}
		if change != nil {
			change(i, &cfg)
		}
		c.Configs = append(c.Configs, cfg)
	}
	return c
}

// Start configures and starts a cluster.
func Start(t testing.TB, nodes int, change func(i int, cfg *transport.Config)) *Cluster {
	t.Helper()
	c := New(t, nodes, change)
	all := make([]int, nodes)
	for i := range all {
		all[i] = i
	}
	c.Up(t, all...)
	return c
}

// Up starts nodes, at the same time; they are stopped at the end of the test.
func (c *Cluster) Up(t testing.TB, nodes ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var starting sync.WaitGroup
	for _, i := range nodes {
		starting.Go(func() {
			node, err := transport.Open(ctx, c.Configs[i])
			if err != nil {
				t.Errorf("start %s: %v", c.Configs[i].Node, err)
				return
			}
			c.Nodes[i] = node
		})
	}
	starting.Wait()
	t.Cleanup(func() { c.Down(nodes...) })
	if t.Failed() {
		t.FailNow()
	}
}

// Down stops nodes, at the same time. Those that are stopped stay so.
func (c *Cluster) Down(nodes ...int) {
	var stopping sync.WaitGroup
	for _, i := range nodes {
		if node := c.Nodes[i]; node != nil {
			c.Nodes[i] = nil
			stopping.Go(func() { _ = node.Close() })
		}
	}
	stopping.Wait()
}

// Addrs returns unused addresses on loopback. Their ports are below the range from which systems give ports to
// connections and listeners. So no other process gets one of them before a node listens there.
func Addrs(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for tries := 0; len(addrs) < n && tries < 1000; tries++ {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		reserved, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", addr)
		if err != nil {
			continue // another test has it, of this process or of any other
		}
		t.Cleanup(func() { reserved.Close() })
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		l.Close()
		addrs = append(addrs, addr)
	}
	if len(addrs) < n {
		t.Fatal("no unused ports")
	}
	return addrs
}

// Eventually fails the test if ok does not become true. It asks often at first, and then
// rarely: an ok that asks all nodes costs them more than what they do meanwhile.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for pause := 5 * time.Millisecond; !ok(); pause = min(pause*3/2, 100*time.Millisecond) {
		if time.Since(began) > Patience {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		<-time.After(pause)
	}
}

// Logger logs to the test, until it ends.
func Logger(t testing.TB, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}

//go:linkname routeConnectDelay github.com/nats-io/nats-server/v2/server.routeConnectDelay
var routeConnectDelay time.Duration

//go:linkname routeReconnectDelay github.com/nats-io/nats-server/v2/server.routeReconnectDelay
var routeReconnectDelay time.Duration

// Routes are tried more often than in production, so that a test which starts a node again waits for less.
func init() {
	routeConnectDelay, routeReconnectDelay = 100*time.Millisecond, 100*time.Millisecond
}

// RemoveAll is os.RemoveAll of a directory that a process still writes to: again while there are files that
// were made meanwhile, for at most Patience.
func RemoveAll(dir string) error {
	for began := time.Now(); ; {
		err := os.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Since(began) > Patience {
			return err
		}
	}
}
