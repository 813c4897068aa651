package durable

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/stream"
)

var (
	takeoverMessages = flag.Int("takeover.messages", 500, "messages of the journal that TestTakeoverTime has other nodes read when one dies")
	takeoverKeys     = flag.Int("takeover.keys", 1, "keys that are hit in each of these messages, some 16 bytes each")
)

// After a node has died, the others hold its partitions within seconds, however long the journal
// is: they read it about once. (Run it with -takeover.messages 1000 -takeover.keys 30000 -v to measure.)
func TestTakeoverTime(t *testing.T) {
	t.Parallel()
	s := newSharing(t, 3, 2)
	var took atomic.Int64
	s.engine = engine.Config{Clock: engine.EventClock, Partitions: 256, Gather: true}
	for i := range s.cfgs {
		s.cfgs[i].SnapshotBytes = 64 << 20 // no snapshot: all is read
		s.cfgs[i].Logger = slog.New(tookLog{s.cfgs[i].Logger.Handler(), &took})
	}
	s.start()
	began := time.Now()
	sideBySide(t, len(s.nodes), *takeoverMessages, func(node, i int) error {
		for key := range *takeoverKeys {
			if _, err := s.nodes[node].e.HitAt(time.Unix(1_000_000+int64(i)%300, 0), fmt.Sprint("k", i%1000+key), 1); err != nil {
				return err
			}
		}
		return s.nodes[node].j.Sync(t.Context())
	})
	_, last, bytes, err := s.nodes[0].j.store.Bounds(t.Context())
	t.Logf("%d messages with %d bytes in the journal, written in %v, %v", last, bytes, time.Since(began).Round(time.Millisecond), err)

	began = time.Now()
	took.Store(0)
	s.nodes[1].crash()
	s.nodes[1] = nil
	transporttest.Eventually(t, "two nodes hold all partitions", func() bool {
		for _, node := range s.nodes {
			if node != nil && node.e.HeldPartitions().Len() < 256 {
				return false
			}
		}
		return took.Load() > 0
	})
	t.Logf("%v after the node's death, %v of them to be sure of it, the others hold its partitions", time.Since(began).Round(time.Millisecond), s.cfgs[0].MoveAfter)
	began = time.Now()
	readInOrder(t, s.nodes[0].j.store.Conn(), last)
	plain := time.Since(began)
	perSecond := func(in time.Duration) float64 { return float64(bytes) / 1e6 / in.Seconds() }
	slowest := time.Duration(took.Load())
	t.Logf("read and taken over in %v, at %.1f MB/s on each of two nodes at once; read in order by a plain consumer at %.1f: %.1f times as long",
		slowest, perSecond(slowest), perSecond(plain), slowest.Seconds()/plain.Seconds())
}

// tookLog notes how long the slowest take-over took, by what nodes log.
type tookLog struct {
	slog.Handler
	took *atomic.Int64
}

func (tookLog) Enabled(context.Context, slog.Level) bool { return true }

func (l tookLog) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "took" {
			l.took.Store(max(l.took.Load(), int64(a.Value.Duration())))
		}
		return true
	})
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// readInOrder reads the journal with an ordered consumer, and does nothing with it.
func readInOrder(t *testing.T, conn *nats.Conn, last uint64) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), stream.FlushStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if err != nil {
			t.Fatal(err)
		}
		if at, err := m.Metadata(); err != nil {
			t.Fatal(err)
		} else if at.Sequence.Stream >= last {
			return
		}
	}
}
