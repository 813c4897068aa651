package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/journal/stream"
)

var consumers = flag.Int("consumers", 150, "how many consumers TestStartAmongConsumers makes; the alarm comes above 100")

// A node starts though another program has made as many consumers of the journal's stream as NATS takes. An alarm says so while they are
// there. The nodes themselves make none.
func TestStartAmongConsumers(t *testing.T) {
	t.Parallel()
	s := newSharing(t, 3, 2)
	s.start()
	s.hit(500)
	s.settled(2)

	js := s.nodes[0].j.server.JetStream()
	sideBySide(t, 32, *consumers, func(_, i int) error {
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
	sideBySide(t, 32, *consumers, func(_, i int) error {
		return stream.RetryUnavailable(t.Context(), func(ctx context.Context) error {
			if err := js.DeleteConsumer(ctx, stream.FlushStream, fmt.Sprintf("%022d_1", i+1)); !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return err
			}
			return nil
		})
	})
	transporttest.Eventually(t, "there are no consumers, and no alarm", func() bool {
		info, err := js.AccountInfo(t.Context())
		return err == nil && info.Consumers == 0 && s.nodes[0].j.Stats().Consumers == 0 && !hasAlarm()
	})
}
