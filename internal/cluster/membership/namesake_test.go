package membership_test

import (
	"log/slog"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Two nodes of one name that run find each other, and one of another name says nothing of them.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	server, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Shutdown)
	if !server.ReadyForConnections(transporttest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	var nodes []*membership.Beats
	for i, name := range []string{"n1", "n1", "n2"} {
		conn, err := nats.Connect(server.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		e, err := engine.New(engine.Config{Gather: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		own := record.Incarnation{Origin: uint64(i + 1), Epoch: 1}
		b := &membership.Beats{
			Conn: conn, Log: slog.New(slog.DiscardHandler), Own: own, Node: name, Promise: time.Second, Stores: &replica.Stores{},
			Written: func() *replica.Written { return &replica.Written{Began: time.Now()} }, Replica: replica.New(e, own.Origin, name, true),
		}
		if err := b.Listen(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, b)
	}
	for _, b := range nodes {
		if alarms := b.Alarms(); len(alarms) > 0 { // a start that is refused sends no heartbeat
			t.Errorf("%+v", alarms)
		}
		t.Cleanup(b.Begin(t.Context()))
	}
	for _, b := range nodes[:2] {
		transporttest.Eventually(t, "it knows that there are two", func() bool {
			alarms := b.Alarms()
			return len(alarms) == 1 && alarms[0].Code == "node_name_twice"
		})
	}
	if alarms := nodes[2].Alarms(); len(alarms) > 0 {
		t.Errorf("%+v", alarms)
	}
}
