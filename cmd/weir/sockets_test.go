package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/client"
)

// A server listens at Unix sockets, also after one that was killed and left its sockets behind. A second server does not
// take them away.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	at, err := os.MkdirTemp("", "weir") // shorter than a test's own folder: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(at) })
	dir, http, resp := t.TempDir(), filepath.Join(at, "http"), filepath.Join(at, "resp")
	args := []string{"--http", "unix:" + http, "--resp", "unix:" + resp}
	for round := 1; round <= 2; round++ {
		p := startProcess(t, dir, args...)
		if p.addr != "unix:"+http {
			t.Fatalf("serves at %s", p.addr)
		}
		c, err := client.New(p.addr, client.Options{Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(t.Context(), []client.Hit{{Key: "page", N: 1}}); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("unix", resp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("COUNT page 1h\r\n")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 100)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "*5\r\n:"+string(rune('0'+round))) {
			t.Errorf("round %d: %q, %v", round, answer[:n], err)
		}
		conn.Close()
		second := launch(t, t.TempDir(), args...)
		if addr := <-second.serving; addr != "" {
			t.Fatal("a second server took the sockets")
		}
		if log := <-second.log; !strings.Contains(log, "address already in use") {
			t.Error(log)
		}
		_ = p.Process.Kill()
		<-p.ended
	}
}
