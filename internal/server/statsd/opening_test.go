package statsd

import (
	"io"
	"net"
	"testing"
)

// What is sent before there is a server waits for it.
func TestOpening(t *testing.T) {
	t.Parallel()
	o, err := Open(Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := o.Addr()
	if another, err := Open(Config{Addr: addr}); err == nil {
		t.Error("an address in use", another.Close())
	}
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "early:2|c\n"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := newTestServerAt(t, Config{}, "", o)
	s.wantCount("early", 4)
	if err := o.Close(); err != nil || s.Addr() != addr {
		t.Errorf("%v, at %s and not %s", err, s.Addr(), addr)
	}
	s.send("udp", "late:1|c")
	s.wantCount("late", 1)
}

// An address that no server takes over is let go.
func TestOpeningWithoutServer(t *testing.T) {
	t.Parallel()
	o, err := Open(Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := o.Addr()
	for range 2 {
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(Config{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
