package transport_test

import (
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Two nodes become three: so do the replicas.
func TestStreamsSpreadToANewNode(t *testing.T) {
	t.Parallel()
	c := transporttest.New(t, 3, func(i int, cfg *transport.Config) {
		if i < 2 {
			cfg.Peers = cfg.Peers[:2]
		}
	})
	c.Up(t, 0, 1)
	makeStream(t, c.Nodes[0])
	publish(t, c.Nodes[0], "a")
	c.Up(t, 2)
	sizes(t, c, 3)
	transporttest.Eventually(t, "the stream is spread", func() bool { return c.Nodes[1].Spread(t.Context(), 3) == nil })
	if got := keepers(t, c, 0); !slices.Contains(got, "n3") {
		t.Errorf("the stream is kept by %v", got)
	}
	c.Down(0)
	publish(t, c.Nodes[2], "b")
}
