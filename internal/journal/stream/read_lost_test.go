package stream

import (
	"context"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A request that is lost on its way, as by a server that leads no more, is made again: a start
// that reads the journal does not wait for its answer for ever.
func TestALostRequestIsMadeAgain(t *testing.T) {
	t.Parallel()
	server, js := aloneServer(t)
	store, _, err := Open(t.Context(), js, Identity{}, func(int) int { return 1 }, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Publish(t.Context(), []byte("a"), AskTime); err != nil {
		t.Fatal(err)
	}

	account := server.GlobalAccount()
	const requests = "$JS.API.CONSUMER.CREATE.>"
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
