package node_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// Hits by RESP and by HTTP are the same hits; figures of the RESP listener are among the metrics; a stop
// ends its connections.
func TestANodeWithRESP(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.RESP.Addr = "127.0.0.1:0"
	n := nodetest.Open(t, cfg)
	hit(t, n, "a", 2)
	conn, err := net.Dial("tcp", n.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for sent, want := range map[string]string{"HIT a 3": ":3\r\n", "NOPE": "-ERR unknown command 'NOPE', with args beginning with:\r\n"} {
		if _, err := io.WriteString(conn, sent+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); got != want {
			t.Fatalf("%s: %q, %v", sent, got, err)
		}
	}
	if got := count(t, n, "a"); got != 5 {
		t.Errorf("%d hits", got)
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{
		`weir_listener_connections{listener="resp"} 1`, `weir_listener_requests_total{command="hit",listener="resp"} 1`, `weir_listener_requests_total{command="unknown",listener="resp"} 1`,
		`weir_listener_requests_failed_total{listener="resp"} 1`, `weir_listener_connections_bound{listener="resp"} 4096`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	nodetest.Close(t, n)
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the stop: %v", err)
	}
	if n := nodetest.Open(t, cfg); count(t, n, "a") != 5 {
		t.Error("hits by RESP are gone after a restart")
	}
}

// While a node starts, its address for clients of Redis says so.
func TestRESPWhileANodeStarts(t *testing.T) {
	t.Parallel()
	members := transporttest.New(t, 3, nil)
	cfg := config(t, members.Configs[0].Dir)
	cfg.Journal.Join = members.Configs[0]
	cfg.RESP.Addr = transporttest.Addrs(t, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		n, err := node.Start(ctx, cfg)
		if err == nil {
			err = errors.Join(errors.New("it started without the others"), n.Close(context.Background()))
		}
		ended <- err
	}()
	transporttest.Eventually(t, "it says that it is joining", func() bool {
		conn, err := net.Dial("tcp", cfg.RESP.Addr)
		if err != nil {
			return false
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "PING\r\n")
		answer, _ := io.ReadAll(conn)
		return strings.HasPrefix(string(answer), "-LOADING Weir is not ready yet: joining: ")
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", cfg.RESP.Addr); err == nil {
		t.Error("the address is still there")
	}
}
