package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

// A server that runs is verified: its journal, and its answers against it. A server with other counts fails.
func TestVerifyServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Add(-10 * time.Second)
	send := func(server string, more ...client.Hit) {
		for i := range 3000 {
			more = append(more, client.Hit{Key: fmt.Sprint("k", i%1500), N: uint64(1 + i%3), At: now.Add(-time.Duration(i%200) * time.Second)})
		}
		c, err := client.New(server, client.Options{})
		if err == nil {
			_, err = c.Send(t.Context(), more)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	serveOnce(t, filepath.Join(dir, "a"), func(a string) {
		send(a)
		out := mustWeir(t, exitOK, "", "verify", "--server", a)
		if !strings.Contains(out, "1500 keys: checksums and running totals agree") || !strings.Contains(out, "none") {
			t.Error(out)
		}
		serveOnce(t, filepath.Join(dir, "b"), func(b string) {
			send(b, client.Hit{Key: "k7", N: 1, At: now})
			if out := mustWeir(t, exitFailure, "", "verify", "--server", a+","+b); !strings.Contains(out, `"*" in 5m`) {
				t.Error(out)
			}
		})
	})
}
