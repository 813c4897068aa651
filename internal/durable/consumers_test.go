package durable

import (
	"context"
	"flag"
	"fmt"
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
	sideBySide(t, 32, *oldReaders, func(_, i int) error {
		return stream.RetryUnavailable(t.Context(), func(ctx context.Context) error {
			_, err := js.CreateOrUpdateConsumer(ctx, stream.FlushStream, jetstream.ConsumerConfig{
				Name: fmt.Sprintf("%022d_1", i+1), DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 1, AckPolicy: jetstream.AckNonePolicy,
				InactiveThreshold: 5 * time.Minute, MemoryStorage: true, Replicas: 1,
			})
			return err
		})
	})
	hasAlarm := func() bool { return alarmed(s.nodes[0].j, "journal_consumers") }
	transporttest.Eventually(t, "an alarm tells of the consumers", hasAlarm)

	s.nodes[1].crash()
	s.nodes[1] = nil
	s.start()
	s.hit(500)
	s.settled(2)
	transporttest.Eventually(t, "there are no consumers, and no alarm", func() bool {
		info, err := js.AccountInfo(t.Context())
		return err == nil && info.Consumers == 0 && s.nodes[0].j.Stats().Consumers == 0 && !hasAlarm()
	})
}
