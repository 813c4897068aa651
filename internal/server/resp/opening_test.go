package resp

import (
	"bufio"
	"errors"
	"github.com/weir-counter/weir/internal/server/listener"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An address answers LOADING until its server takes it over, and the server answers there.
func TestOpening(t *testing.T) {
	t.Parallel()
	o, err := Open(Config{Settings: listener.Settings{Addr: "127.0.0.1:0"}}, func() string { return "loading: message 5 of 10" })
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", o.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	idle, idleIn := dial()
	const says = "-LOADING Weir is not ready yet: loading: message 5 of 10\r\n"
	for sent, want := range map[string]string{
		"PING\r\n": says, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$4\r\nINFO\r\n": says + says,
		"*x\r\n": "", "PING " + strings.Repeat("x", 10_000): "",
	} {
		c, in := dial()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) || string(got) != want {
			t.Errorf("%.20q: %q, %v", sent, got, err)
		}
	}
	s := newTestServer(t, Config{}, "")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	over, err := New(s.service, Config{Settings: listener.Settings{Addr: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	over.TakeOver(o)
	if _, err := idleIn.ReadByte(); err == nil {
		t.Error("a connection that had sent nothing got an answer")
	}
	_ = idle.Close()
	go func() { _ = over.Run(t.Context()) }()
	c, in := dial()
	if _, err := io.WriteString(c, "HIT a 3\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := in.ReadString('\n'); got != ":3\r\n" || err != nil {
		t.Errorf("after it was taken over: %q, %v", got, err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if got := over.Addr(); got != o.Addr() {
		t.Errorf("the server is at %s", got)
	}
}
