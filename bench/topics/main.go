// Topics measures how many events per second Weir counts from a NATS stream on this machine, next to a consumer that only acknowledges
// them. Both read the same stream in turns; the server, the reader and the journal share the processors.
//
//	cd bench && go run ./topics
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/node"
)

func main() {
	events := flag.Int("events", 2_000_000, "events of the stream")
	keys := flag.Int("keys", 1000, "different keys")
	rounds := flag.Int("rounds", 3, "turns of each; the fastest counts")
	flag.Parse()
	if err := run(*events, *keys, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(events, keys, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "weir-topics")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := server.NewServer(&server.Options{ServerName: "broker", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("the NATS server is not ready")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(5000))
	if err != nil {
		return err
	}
	stream, err := fill(js, events, keys)
	if err != nil {
		return err
	}
	var plain, weir time.Duration
	for round := range rounds {
		took, err := acknowledge(stream, events, fmt.Sprint("plain", round))
		if err != nil {
			return err
		}
		plain = least(plain, took)
		if took, err = count(s.ClientURL(), filepath.Join(dir, fmt.Sprint("weir", round)), events); err != nil {
			return err
		}
		weir = least(weir, took)
	}
	perSecond := func(d time.Duration) float64 { return float64(events) / d.Seconds() }
	fmt.Printf("%d events of %d keys: Weir counts %.0f/s, a consumer acknowledges %.0f/s\n", events, keys, perSecond(weir), perSecond(plain))
	return nil
}

func least(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// fill makes a stream with the events.
func fill(js jetstream.JetStream, events, keys int) (jetstream.Stream, error) {
	ctx := context.Background()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}})
	if err != nil {
		return nil, err
	}
	for i := range events { // a stream that falls behind drops what nobody asks an answer for
		event := fmt.Appendf(nil, `{"path":"/page/%d","n":1,"user":"u%d","status":200}`, i%keys, i%977)
		if _, err := js.PublishAsync("events", event, jetstream.WithStallWait(time.Minute)); err != nil {
			return nil, err
		}
	}
	<-js.PublishAsyncComplete()
	is, err := stream.Info(ctx)
	if err == nil && is.State.Msgs != uint64(events) {
		err = fmt.Errorf("the stream has %d of %d events", is.State.Msgs, events)
	}
	return stream, err
}

// acknowledge reads and acknowledges all events.
func acknowledge(stream jetstream.Stream, events int, name string) (time.Duration, error) {
	c, err := stream.CreateConsumer(context.Background(), jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100_000})
	if err != nil {
		return 0, err
	}
	began, left, done := time.Now(), events, make(chan struct{})
	consuming, err := c.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		if left--; left == 0 {
			close(done)
		}
	}, jetstream.PullMaxMessages(20_000))
	if err != nil {
		return 0, err
	}
	<-done
	took := time.Since(began)
	consuming.Stop()
	return took, stream.DeleteConsumer(context.Background(), name)
}

// count starts a server on an empty directory, and waits until its journal has all events.
func count(url, dir string, events int) (time.Duration, error) {
	cfg := node.Config{Logger: slog.New(slog.DiscardHandler)}
	cfg.Journal.Dir, cfg.HTTP.Addr = dir, "127.0.0.1:0"
	cfg.Topics.From = []string{url + "/EVENTS?key=url:{path}"}
	n, err := node.Start(context.Background(), cfg)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for {
		c, err := n.Engine().Count("*", time.Hour)
		if err != nil {
			return 0, err
		}
		if c.Lower >= uint64(events) {
			break
		}
		if time.Since(began) > 10*time.Minute {
			return 0, fmt.Errorf("%d of %d events are counted after ten minutes", c.Lower, events)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	return took, n.Close(context.Background())
}
