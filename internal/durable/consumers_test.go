package durable

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/journal/stream"
)

var oldReaders = flag.Int("old.readers", 150, "how many consumers TestStartAmongOldReaders leaves; the alarm comes above 100")

// A node starts though the journal's stream has as many consumers as NATS takes, and removes those that earlier
// versions left. The cluster then has none.
func TestStartAmongOldReaders(t *testing.T) {
	t.Parallel()
	s := newSharing(t, 3, 2)
	s.start()
	s.hit(500)
	s.settled(2)

	js := s.nodes[0].j.server.JetStream()
	old, atOnce := int64(*oldReaders), 32
	var made atomic.Int64
	var making sync.WaitGroup
	for range atOnce {
		making.Go(func() {
			for i := made.Add(1); i <= old; i = made.Add(1) {
				if err := stream.RetryUnavailable(t.Context(), func(ctx context.Context) error {
					_, err := js.CreateOrUpdateConsumer(ctx, stream.FlushStream, jetstream.ConsumerConfig{
						Name: fmt.Sprintf("%022d_1", i), DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 1, AckPolicy: jetstream.AckNonePolicy,
						InactiveThreshold: 5 * time.Minute, MemoryStorage: true, Replicas: 1,
					})
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	making.Wait()
	alarmed := func() bool {
		for _, a := range s.nodes[0].j.Alarms() {
			if a.Code == "journal_consumers" {
				return true
			}
		}
		return false
	}
	transporttest.Eventually(t, "an alarm tells of the consumers", alarmed)

	s.nodes[1].crash()
	s.nodes[1] = nil
	s.start()
	s.hit(500)
	s.settled(2)
	transporttest.Eventually(t, "there are no consumers, and no alarm", func() bool {
		info, err := js.AccountInfo(t.Context())
		return err == nil && info.Consumers == 0 && s.nodes[0].j.Stats().Consumers == 0 && !alarmed()
	})
}
