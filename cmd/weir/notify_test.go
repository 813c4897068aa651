package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cli"
)

// systemd learns when the server is ready, and when it stops.
func TestNotify(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	message := func() string {
		b := make([]byte, 256)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan int, 1)
	go func() {
		w := &cli.World{Stdout: io.Discard, Stderr: io.Discard, Env: lookup(map[string]string{"NOTIFY_SOCKET": socket})}
		done <- run(ctx, w, []string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir()})
	}()
	if got := message(); !strings.HasPrefix(got, "READY=1\n") {
		t.Errorf("sent %q", got)
	}
	stop()
	if got := message(); !strings.HasPrefix(got, "STOPPING=1\n") {
		t.Errorf("sent %q", got)
	}
	if code := <-done; code != exitOK {
		t.Errorf("exit %d", code)
	}
}
