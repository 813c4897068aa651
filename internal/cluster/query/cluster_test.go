package query

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Nodes that have a NATS server each, as in a cluster: one is gone with its server,
// and the others answer for it.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 3, nil)
	f := &fleet{t: t, model: newEngine(t), in: all(parts)}
	for p := range parts {
		f.holders[p] = []string{fmt.Sprint("n", p%3), fmt.Sprint("n", (p+1)%3)}
	}
	for i := range 3 {
		n := &node{id: fmt.Sprint("n", i), engine: newEngine(t), asOf: now}
		for p := range parts {
			if i == (p+2)%3 {
				n.engine.Release(p)
			}
		}
		n.conn = c.Nodes[i].Conn()
		f.open(n, func(cfg *Config) { cfg.FlushEvery = time.Nanosecond; cfg.Deadline = 3 * time.Second; cfg.Logger = nil })
		f.nodes = append(f.nodes, n)
	}
	f.fill(50)
	// Servers tell each other who listens, in a moment.
	for _, n := range f.nodes {
		for partition := range parts {
			for _, to := range f.holders[partition] {
				transporttest.Eventually(t, n.id+" reaches "+to, func() bool {
					each := n.askNode(t.Context(), to, []*question{{kind: count, key: f.keyOf(partition, 0), at: now, window: time.Hour}})
					return each != nil && each[0].err == nil
				})
			}
		}
	}
	for _, n := range f.nodes {
		f.wantModel(n, 50)
	}
	c.Down(1)
	for _, n := range []*node{f.nodes[0], f.nodes[2]} {
		f.wantModel(n, 50)
		if s := n.Stats(); s.Unanswered != 0 {
			t.Errorf("%s: %+v", n.id, s)
		}
	}
}
