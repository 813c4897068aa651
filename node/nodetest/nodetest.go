// Package nodetest starts nodes within a test's process, on loopback.
package nodetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/weir-counter/weir/node"
)

// Start starts an ephemeral node at a free port, and closes it when the test ends. change, if
// not nil, may change its configuration before.
func Start(t testing.TB, change func(*node.Config)) *node.Node {
	t.Helper()
	cfg := node.Config{Ephemeral: true, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
	cfg.HTTP.Addr = "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	return Open(t, cfg)
}

// Open starts a node, and closes it when the test ends, if the test has not done so before.
func Open(t testing.TB, cfg node.Config) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, n) })
	return n
}

// Close closes nodes side by side, as nodes of a cluster that stop for good do. It skips those that are nil: they did not start.
func Close(t testing.TB, nodes ...*node.Node) {
	t.Helper()
	var closing sync.WaitGroup
	for _, n := range nodes {
		if n == nil {
			continue
		}
		closing.Go(func() {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
}
