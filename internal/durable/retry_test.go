package durable

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// once counts a request of two hits under an idempotency key, as a server does.
func (r *running) once(key string) error {
	_, _, err := r.e.Receipts().Once(context.Background(), "", key, 1, func(recorded *replication.RequestRecorder) []byte {
		for _, hit := range []string{"all", key} {
			const second = 1_000_000
			if _, err := r.e.HitAt(time.Unix(second, 0), hit, 1); err != nil {
				return nil
			}
			recorded.Add(second, hit, 0, 1)
		}
		return []byte("counted")
	})
	return err
}

// A request that is sent to two of three nodes at once counts once, on all of them: before either knows it from the journal, while nodes
// are killed, and after all have started again.
func TestRetryAtAnotherNode(t *testing.T) {
	t.Parallel()
	const requests = 900
	c := newCluster(t, 3)
	c.start()
	want := map[string]uint64{"all": requests, engine.AllKeys: 2 * requests}
	send := func(first, after int) {
		var senders sync.WaitGroup
		for i := first; i < after; i++ {
			key := fmt.Sprintf("request %d", i)
			want[key] = 1
			for _, node := range c.nodes { // one by one, within a flush interval
				if node == nil {
					continue
				}
				if err := node.once(key); err != nil {
					t.Fatal(err)
				}
			}
			if i%30 == 29 {
				for _, node := range c.nodes {
					if node != nil {
						senders.Go(func() { _ = node.j.Sync(t.Context()) })
					}
				}
				if i%60 == 59 {
					senders.Wait()
				}
			}
		}
		senders.Wait()
	}
	send(0, 300)
	for i := range 3 { // one is killed before its last flush is settled, or even written
		send(300+100*i, 400+100*i)
		c.nodes[i].crash()
		c.nodes[i] = nil
		send(600+100*i, 700+100*i)
		c.start()
	}
	c.agree(want)
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Divergence != 0 {
			t.Errorf("node %d: %+v", i+1, s)
		}
	}
	for i := range c.nodes {
		c.nodes[i].crash()
		c.nodes[i] = nil
	}
	c.start()
	c.agree(want)
}
