package node_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/history/store/dbtest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// On an idle cluster with one database, a fresh question about history succeeds at every node, and has the hits of every node.
func TestFreshHistoryOfASharedDatabase(t *testing.T) {
	t.Parallel()
	server := dbtest.NewPostgres()
	t.Cleanup(server.Close)
	url := server.URL(t)
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	startNodes(t, nodes, members, func(_ int, cfg *node.Config) {
		cfg.History.On, cfg.History.URL, cfg.History.Every = true, url, time.Minute
	})
	for i, n := range nodes {
		hitAt(t, n, "k", time.Now(), 1)
		if p := aligned(t, n, "key=k&align=year&from=-1s").Points[0]; !p.Exact || p.Lower != uint64(i+1) {
			t.Errorf("node %d has %s, want %d", i+1, p.Bounds, i+1)
		}
	}
	for range 5 {
		for i, n := range nodes {
			if p := aligned(t, n, "key=k&align=year&from=-1s").Points[0]; p.Lower != uint64(len(nodes)) {
				t.Errorf("node %d has %s", i+1, p.Bounds)
			}
		}
	}
	transporttest.Eventually(t, "one node writes history", func() bool { // a slow database makes another the writer
		writers := 0.0
		for _, n := range nodes {
			writers += metricsOf(t, n, "weir_history_writer")["weir_history_writer"]
		}
		return writers == 1
	})
}
