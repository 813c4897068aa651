package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Counters of Redis commands that a durable hit came after survive kill -9, with their expiry time.
func TestCountersSurviveAKill(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), transporttest.Addrs(t, 1)[0]
	p := startProcess(t, dir, "--resp", addr)
	ask := func(commands ...string) (reply string) {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(append(commands, "ECHO end"), "\r\n") + "\r\n"
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var b [4096]byte
		for n := 0; ; {
			more, err := conn.Read(b[n:])
			if n += more; strings.HasSuffix(string(b[:n]), "end\r\n") {
				return strings.TrimSuffix(string(b[:n]), "$3\r\nend\r\n")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := 1; round <= 3; round++ {
		ask("INCRBY total 1000", "INCR user:1", "EXPIREAT user:1 4000000000", fmt.Sprintf("SET round %d PX 3000000", round))
		if err := p.hit("a", "", true); err != nil {
			t.Fatal(err)
		}
		_, _ = p.end(t, os.Kill)
		p = startProcess(t, dir, "--resp", addr)
		number := fmt.Sprintf("$1\r\n%d\r\n", round)
		if got, want := ask("GET total", "GET user:1", "GET round"), fmt.Sprintf("$4\r\n%d000\r\n", round)+number+number; got != want {
			t.Errorf("after kill %d: %q, want %q", round, got, want)
		}
		var left int64
		if _, err := fmt.Sscanf(ask("PTTL round"), ":%d", &left); err != nil || left < 1_000_000 || left > 3_000_000 {
			t.Errorf("%d ms are left, of 3000000: %v", left, err)
		}
	}
}
