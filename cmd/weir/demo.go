package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/node"
)

// checkDemo has a demonstration in memory, and refuses what it has not: its hits are not to be found
// among those that somebody needs.
func (f *serveFlags) checkDemo(from cli.Sources) error {
	if !f.demo {
		return nil
	}
	for _, flag := range []string{"data", "cluster", "nats", "replicas", "region", "history", "history-url", "policy", "tokens", "clock"} {
		if where := from[flag]; where != "" && (flag != "history" || f.node.History.On) {
			return cli.Usage(fmt.Errorf("%s and %s: the demo is a single open server in memory with its own policies: remove one of the two", where, from["demo"]))
		}
	}
	f.node.Ephemeral = true
	f.node.Policies.Set = demoPolicies()
	return nil
}

// makeDemo makes traffic until ctx ends; ended returns when it has.
func (f *serveFlags) makeDemo(ctx context.Context, n *node.Node, log *slog.Logger) (ended func(), err error) {
	now := time.Now()
	traffic := newTraffic(n.Engine(), n.Handler(), uint64(now.UnixNano()))
	if err := traffic.Past(now); err != nil {
		return nil, fmt.Errorf("--demo: %w", err)
	}
	log.Info("the traffic is made up: look at the dashboard", "url", "http://"+n.Addr()+"/")
	var running sync.WaitGroup
	running.Go(func() { traffic.Run(ctx) })
	return running.Wait, nil
}
