package envoy

import (
	"io"
	"net"
	"testing"

	"github.com/weir-counter/weir/internal/server/listener"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Before there is a server, who connects is not kept waiting; afterwards it answers there.
func TestOpening(t *testing.T) {
	t.Parallel()
	o, err := Open(Config{Settings: listener.Settings{Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	addr := o.Addr()
	if another, err := Open(Config{Settings: listener.Settings{Addr: addr}}); err == nil {
		t.Error("an address in use", another.Close())
	}
	for range 3 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); len(text) > 0 {
			t.Errorf("it said %q, %v", text, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	s := newTestServer(t, options{opening: o})
	if err := o.Close(); err != nil || s.Addr() != addr {
		t.Errorf("%v, at %s and not %s", err, s.Addr(), addr)
	}
	answer, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", answer, err)
	}
}
