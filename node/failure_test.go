package node_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
)

// broker is a NATS server that is not the node's.
func broker(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		ServerName: "existing", Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(transporttest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), js
}

// A journal that can't go on ends the node with its error: here a journal of which somebody
// removed what the node has not read.
func TestAJournalThatFailsEndsTheNode(t *testing.T) {
	t.Parallel()
	url, js := broker(t)
	cfg := config(t, t.TempDir())
	cfg.Journal.Join.URL, cfg.Journal.Join.Node = url, "n1"
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const subject = "weir.journal"
	name, err := js.StreamNameBySubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "the node ends", func() bool {
		if _, err := js.Publish(t.Context(), subject, []byte("not a flush")); err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = n.Engine().Hit("a") // its flush makes the node read on
		select {
		case <-n.Done():
			return true
		default:
			return false
		}
	})
	const why = "trimmed beyond what this node has applied"
	if err := n.Err(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("it ended with %v", err)
	}
	if err := n.Close(context.Background()); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("Close says %v", err)
	}
	if _, err := http.Get("http://" + n.Addr() + "/healthz"); err == nil {
		t.Error("a node that has failed answers after Close")
	}
}
