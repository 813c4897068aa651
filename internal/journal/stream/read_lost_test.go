package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// A request that is lost on its way, as by a server that leads no more, is made again: a start
// that reads the journal does not wait for its answer for ever.
func TestALostRequestIsMadeAgain(t *testing.T) {
	t.Parallel()
	server, js := aloneServer(t)
	store, _, err := Open(t.Context(), js, Identity{}, func(int) int { return 1 }, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Publish(t.Context(), []byte("a"), AskTime); err != nil {
		t.Fatal(err)
	}

	account := server.GlobalAccount()
	const requests = "$JS.API.DIRECT.GET.>"
	if err := account.AddMapping(requests, "lost.>"); err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{}, 1)
	if _, err := js.Conn().Subscribe("lost.>", func(*nats.Msg) {
		account.RemoveMapping(requests)
		lost <- struct{}{}
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	err = store.Read(ctx, 1, 1, func(_ uint64, data []byte) error {
		got = append(got, string(data))
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != "a" {
		t.Errorf("read %q, %v", got, err)
	}
	select {
	case <-lost:
	default:
		t.Error("no request was lost: the test shows nothing")
	}
}

// A read whose connection is cut again and again delivers each message once, in order, and leaves nothing on the server.
func TestReadsLeaveNothing(t *testing.T) {
	t.Parallel()
	server, js := aloneServer(t)
	store, _, err := Open(t.Context(), js, Identity{}, func(int) int { return 1 }, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const messages, size = 1500, 1000
	for range messages {
		if _, err := js.PublishAsync(flushSubject, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()

	cuts := &cutter{server: server, random: rand.New(rand.NewPCG(1, 2)), most: messages * size}
	conn, err := nats.Connect("", nats.InProcessServer(cuts), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cut, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	flushes, err := cut.Stream(t.Context(), FlushStream)
	if err != nil {
		t.Fatal(err)
	}
	reader := &Store{js: cut, flushes: flushes, log: slog.New(slog.DiscardHandler)}
	for range 10 {
		next := uint64(1)
		err := reader.Read(t.Context(), 1, messages, func(sequence uint64, data []byte) error {
			if sequence != next || len(data) != size {
				t.Fatalf("message %d with %d bytes, want %d", sequence, len(data), next)
			}
			next++
			return nil
		})
		if err != nil || next != messages+1 {
			t.Fatalf("read up to message %d: %v", next-1, err)
		}
	}
	if n := cuts.made.Load(); n < 10 {
		t.Errorf("%d connections: the test shows nothing", n)
	}
	info, err := js.AccountInfo(t.Context())
	if err != nil || info.Consumers != 0 {
		t.Errorf("%d consumers are left on the server, %v", info.Consumers, err)
	}
	if _, _, _, err := store.Bounds(t.Context()); err != nil || store.Consumers() != 0 {
		t.Errorf("the journal has %d consumers, %v", store.Consumers(), err)
	}
}

// cutter connects to a server in this process, and cuts each connection after some bytes.
type cutter struct {
	server *natsserver.Server
	made   atomic.Int64
	most   int

	mu     sync.Mutex
	random *rand.Rand
}

func (c *cutter) InProcessConn() (net.Conn, error) {
	conn, err := c.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c.made.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	return &cutConn{conn, 10_000 + c.random.IntN(c.most)}, nil
}

type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(b []byte) (n int, err error) {
	if c.left <= 0 {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	n, err = c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// aloneServer is an embedded server with JetStream, and a connection to it.
func aloneServer(t *testing.T) (*natsserver.Server, jetstream.JetStream) {
	t.Helper()
	server, err := natsserver.NewServer(&natsserver.Options{
		DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	if !server.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return server, js
}

// What the replica that answers lacks comes from the leader, in order, and what was trimmed costs no request for each message.
func TestReadOfAReplicaWithHoles(t *testing.T) {
	t.Parallel()
	server, js := aloneServer(t)
	store, _, err := Open(t.Context(), js, Identity{}, func(int) int { return 1 }, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const messages, trimmed = 1000, 600
	for i := range messages {
		if _, err := js.PublishAsync(flushSubject, []byte(fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	damaged, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DAMAGED", Mirror: &jetstream.StreamSource{Name: FlushStream}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for copied := uint64(0); copied < messages; {
		info, err := damaged.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		copied = info.State.LastSeq
	}
	if err := store.Trim(t.Context(), trimmed); err != nil {
		t.Fatal(err)
	}
	if err := damaged.Purge(t.Context(), jetstream.WithPurgeSequence(trimmed+3)); err != nil { // it lacks two more at the beginning
		t.Fatal(err)
	}
	for _, hole := range []uint64{700, 701, 702, 900, messages - 1, messages} {
		if err := damaged.DeleteMsg(t.Context(), hole); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 800 // has it
	for _, name := range []string{FlushStream, "DAMAGED"} {
		stream, err := js.Stream(t.Context(), name)
		if err == nil {
			err = stream.DeleteMsg(t.Context(), nobody)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := server.GlobalAccount().AddMapping(directGet+FlushStream, directGet+"DAMAGED"); err != nil {
		t.Fatal(err)
	}
	before, next := js.Conn().Stats().OutMsgs, uint64(trimmed+1)
	if err := store.Read(t.Context(), 1, messages, func(sequence uint64, data []byte) error {
		if next == nobody {
			next++
		}
		if sequence != next || string(data) != fmt.Sprint(next) {
			t.Fatalf("message %d is %q, want %d", sequence, data, next)
		}
		next++
		return nil
	}); err != nil || next != messages+1 {
		t.Errorf("read up to message %d: %v", next-1, err)
	}
	if asked := js.Conn().Stats().OutMsgs - before; asked > 60 {
		t.Errorf("%d requests", asked)
	}
}

// A message that the leader lost without noticing is had from the replica of another node, by a read of many messages and by one of a
// single message. What nobody has is passed over, and what was trimmed is not taken for that.
func TestReadOfAHoleAtTheLeader(t *testing.T) {
	t.Parallel()
	_, js := aloneServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, _, err := Open(ctx, js, Identity{}, func(int) int { return 1 }, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const messages, trimmed = 20, 3
	for i := range messages {
		if _, err := store.Publish(ctx, []byte(fmt.Sprint(i+1)), AskTime); err != nil {
			t.Fatal(err)
		}
	}
	// A copy with the same numbers. It is no mirror, which would answer for the stream.
	sound, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "SOUND", Sources: []*jetstream.StreamSource{{Name: FlushStream}}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	for copied := uint64(0); copied < messages; {
		info, err := sound.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		copied = info.State.LastSeq
	}
	const hole, nobody = 10, 15
	for _, message := range []uint64{hole, nobody} {
		if err := store.flushes.DeleteMsg(ctx, message); err != nil {
			t.Fatal(err)
		}
	}
	if err := sound.DeleteMsg(ctx, nobody); err != nil {
		t.Fatal(err)
	}
	if err := store.Trim(ctx, trimmed); err != nil {
		t.Fatal(err)
	}
	other := &Store{js: js, flushes: sound, log: store.log}
	if err := other.ServeMissing(record.Incarnation{Origin: 2, Epoch: 1}, nil); err != nil {
		t.Fatal(err)
	}

	if data, err := store.Get(ctx, hole); err != nil || string(data) != fmt.Sprint(hole) {
		t.Errorf("the message that only another node has: %q, %v", data, err)
	}
	if _, err := store.Get(ctx, nobody); !errors.Is(err, replica.ErrLost) {
		t.Errorf("a message that nobody has: %v", err)
	}
	if _, err := store.Get(ctx, trimmed); !errors.Is(err, replica.ErrLeftBehind) {
		t.Errorf("a message that was trimmed: %v", err)
	}
	var got []uint64
	if err := store.Read(ctx, 1, messages, func(sequence uint64, _ []byte) error {
		got = append(got, sequence)
		return nil
	}); err != nil || len(got) != messages-trimmed-1 || !slices.Contains(got, hole) || slices.Contains(got, nobody) {
		t.Errorf("read messages %v, %v", got, err)
	}
}
