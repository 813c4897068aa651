package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/client"
)

// serveOnce starts a server on dir and stops it again.
func serveOnce(t *testing.T, dir string, do func(server string), args ...string) {
	t.Helper()
	t.Run("server", func(t *testing.T) {
		do(startServer(t, append([]string{"--data", dir}, args...)...))
	})
}

func wantCounted(t *testing.T, server, key, hits string) {
	t.Helper()
	code, stdout, stderr := weirOf(t, nil, "", "count", "--server", server, key, "-w", "1h")
	if fields := strings.Fields(stdout); code != exitOK || len(fields) != 6 || fields[5] != hits {
		t.Errorf("%s: exit %d\n%s%s\nwant %s", key, code, stdout, stderr, hits)
	}
}

// A clean stop keeps what was counted, durable or not.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	serveOnce(t, dir, func(server string) {
		for _, args := range [][]string{{"a", "3"}, {"b", "--durable"}} {
			if code, _, stderr := weirOf(t, nil, "", append([]string{"hit", "--server", server}, args...)...); code != exitOK {
				t.Error(stderr)
			}
		}
	})
	serveOnce(t, dir, func(server string) {
		wantCounted(t, server, "a", "3")
		wantCounted(t, server, "b", "1")
		code, _, stderr := weirOf(t, nil, "", "serve", "--http", "127.0.0.1:0", "--data", dir)
		if code != exitFailure || !strings.Contains(stderr, "is in use by process") || !strings.Contains(stderr, dir) {
			t.Errorf("a second process: exit %d, %s", code, stderr)
		}
	})
	serveOnce(t, dir, func(server string) {
		wantCounted(t, server, "a", "3")
		wantCounted(t, server, "b", "1")
	}, "--retention", "2d", "--shrink-retention")
}

// A server does not start on data that lost hits, unless it is asked to.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serveOnce(t, dir, func(server string) {
		if code, _, stderr := weirOf(t, nil, "", "hit", "a", "--server", server); code != exitOK {
			t.Error(stderr)
		}
	})
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := weirOf(t, nil, "", "serve", "--http", "127.0.0.1:0", "--data", dir)
	if code != exitFailure || !strings.Contains(stderr, "weir: the data directory is damaged, and hits are lost:\n  ") || !strings.Contains(stderr, "--accept-damage") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	serveOnce(t, dir, func(server string) { wantCounted(t, server, "a", "0") }, "--accept-damage")
}

// A flood of new keys, with -soak.rounds of make soak more than a small disk keeps at once: each
// request is counted or refused, and what was counted is there after a restart. (TestJournalFull
// fills a disk in make test.)
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var counted, refused uint64
	flags := []string{"--max-disk", "57MiB"}
	flood := min(uint64(*soakRounds)*2_000, 400_000) // hits
	serveOnce(t, dir, func(server string) {
		c, err := client.New(server, client.Options{Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		hits := make([]client.Hit, 10_000)
		for i := 0; counted < flood && refused < flood/200; i++ {
			for k := range hits {
				hits[k].Key = fmt.Sprintf("%0100d", i*len(hits)+k)
			}
			receipt, err := c.Send(t.Context(), hits)
			counted += receipt.Counted
			var e *client.Error
			if err != nil {
				if !errors.As(err, &e) || e.Code != "overloaded" {
					t.Fatal(err)
				}
				refused++
			}
		}
	}, flags...)
	if counted == 0 {
		t.Errorf("nothing was counted, %d requests refused", refused)
	}
	serveOnce(t, dir, func(server string) { wantCounted(t, server, "*", fmt.Sprint(counted)) }, flags...)
}

func TestEphemeral(t *testing.T) {
	t.Chdir(t.TempDir())
	server := startServer(t, "--ephemeral")
	code, _, stderr := weirOf(t, nil, "", "hit", "a", "--durable", "--server", server)
	if code != exitFailure || !strings.Contains(stderr, "start it without --ephemeral") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("an ephemeral server left %v, %v", left, err)
	}
}
