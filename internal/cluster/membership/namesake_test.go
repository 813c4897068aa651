package membership_test

import (
	"log/slog"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
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
	var nodes []*membership.Clocks
	for i, name := range []string{"n1", "n1", "n2"} {
		conn, err := nats.Connect(server.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		c := &membership.Clocks{
			Conn: conn, Log: slog.New(slog.DiscardHandler), Origin: uint64(i + 1), Node: name, Clock: e,
			Origins: func() []replica.OriginStatus { return nil },
		}
		if err := c.Serve(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, c)
	}
	if _, err := nodes[1].All(t.Context()); err != nil { // a start that asks is no alarm: it may be refused
		t.Fatal(err)
	}
	if alarms := nodes[0].Alarms(); len(alarms) > 0 {
		t.Errorf("%+v", alarms)
	}
	for _, c := range nodes {
		go c.Run(t.Context())
	}
	for _, c := range nodes[:2] {
		transporttest.Eventually(t, "it knows that there are two", func() bool {
			alarms := c.Alarms()
			return len(alarms) == 1 && alarms[0].Code == "node_name_twice"
		})
	}
	if alarms := nodes[2].Alarms(); len(alarms) > 0 {
		t.Errorf("%+v", alarms)
	}
}
