package durable

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// streamWriters is how many nodes write to the one stream, each of them one message
// after the other.
const streamWriters = 100

// reportStream writes how many messages one real stream takes: three of the servers in
// this process keep it on their disks, and another one reads it.
func reportStream(t *testing.T, out io.Writer, servers, messages int) {
	if servers <= replica.Replicas {
		t.Fatalf("-size.servers %d: more than %d are needed", servers, replica.Replicas)
	}
	c := transporttest.Start(t, servers, nil)
	var s *stream.Store
	var err error
	transporttest.Eventually(t, "the stream is there", func() bool {
		s, _, err = stream.Open(t.Context(), c.Nodes[0].JetStream(), stream.Identity{}, c.Nodes[0].Replicas, true, slog.New(slog.DiscardHandler))
		return err == nil
	})
	others, err := s.Followers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keepers := map[string]bool{s.Leader(): true}
	for _, r := range others {
		keepers[r.Node] = true
	}
	outside := slices.IndexFunc(c.Configs, func(cfg transport.Config) bool { return !keepers[cfg.Node] })
	reader, _, err := stream.Open(t.Context(), c.Nodes[outside].JetStream(), stream.Identity{}, c.Nodes[outside].Replicas, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "\nOne stream of %d of %d servers of this machine. A reader asks for many messages at once.\n\n", replica.Replicas, servers)
	fmt.Fprint(out, "| bytes of a message | written by 100: messages/s | bytes/s | one writer: ms each | read by a node that keeps none: messages/s |\n", "|---|---|---|---|---|\n")
	for _, size := range []int{500, 10_000, 64_000} {
		var sequence uint64
		data, n := make([]byte, size), max(streamWriters, messages*500/(500+size/10))
		single := timed(t, func() {
			for range n / 10 {
				if sequence, err = writeRetrying(t.Context(), s, data); err != nil {
					t.Fatal(err)
				}
			}
		})
		together := timed(t, func() { writeTogether(t, s, data, n) })
		reading := timed(t, func() { readAhead(t, reader, sequence+1, sequence+uint64(n)) })
		rate := float64(n) / together.Seconds()
		fmt.Fprintf(out, "| %d | %.0f | %s/s | %.2f | %.0f |\n", size, rate, sizeBytes(int(rate*float64(size))), single.Seconds()*1e3/float64(n/10), float64(n)/reading.Seconds())
	}
}

func timed(t *testing.T, f func()) time.Duration {
	t.Helper()
	began := time.Now()
	f()
	return time.Since(began)
}

// writeTogether is n messages of many writers.
func writeTogether(t *testing.T, s *stream.Store, data []byte, n int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var writing sync.WaitGroup
	for range streamWriters {
		writing.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := writeRetrying(t.Context(), s, data); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
}

func writeRetrying(ctx context.Context, s *stream.Store, data []byte) (sequence uint64, err error) {
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		sequence, err = s.Publish(ctx, data, clusterAskTimeout)
		return err
	})
	return sequence, err
}

// readAhead reads messages as a follower does.
func readAhead(t *testing.T, s *stream.Store, next, last uint64) {
	t.Helper()
	a, from := replica.ReadAhead{Front: next - 1, Known: last}, stream.NewAsker()
	defer from.Close()
	for next <= last {
		now := time.Now()
		for ask := a.Silent(now); ask != nil; ask = a.Silent(now) {
			from.GiveUp(ask)
			a.Fail(now, ask)
		}
		for want, ok := a.Want(now, next); ok; want, ok = a.Want(now, next) {
			if err := from.Send(s.Conn(), a.Begin(now, want)); err != nil {
				t.Fatal(err)
			}
		}
		if sequence, _, ok := a.Turn(next); ok {
			next = sequence + 1
			continue
		}
		select {
		case msg := <-from.Answers:
			from.Deliver(&a, now, next, msg)
		case <-time.After(time.Until(a.Due(now))):
		}
	}
}
