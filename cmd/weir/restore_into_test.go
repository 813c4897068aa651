package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A backup is restored into a server that runs: merged once, or in place of its counts.
func TestRestoreIntoARunningServer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.backup")
	serveOnce(t, filepath.Join(dir, "one"), func(server string) {
		mustWeir(t, exitOK, "", "hit", "a", "5", "--server", server)
		mustWeir(t, exitOK, "", "backup", file, "--server", server)
		if out := mustWeir(t, exitFailure, "", "restore", file, "--server", server); !strings.Contains(out, "counted here already") || !strings.Contains(out, "replace") {
			t.Error(out)
		}
	})
	serveOnce(t, filepath.Join(dir, "two"), func(server string) {
		mustWeir(t, exitOK, "", "hit", "a", "2", "--server", server)
		if out := mustWeir(t, exitOK, "", "restore", file, "--server", server); !strings.Contains(out, "merged the backup") {
			t.Error(out)
		}
		wantCounted(t, server, "a", "7")
		if out := mustWeir(t, exitOK, "", "restore", file, "--server", server, "--mode", "merge"); !strings.Contains(out, "nothing was counted again") {
			t.Error(out)
		}
		wantCounted(t, server, "a", "7")
		mustWeir(t, exitOK, "", "restore", file, "--server", server, "--mode", "replace")
		wantCounted(t, server, "a", "5")
		if out := mustWeir(t, exitFailure, "no backup", "restore", "-", "--server", server); !strings.Contains(out, "not a backup") {
			t.Error(out)
		}
		wantCounted(t, server, "a", "5")
	})
	mustWeir(t, exitUsage, "", "restore", file, "--server", "x", "--data", dir)
	mustWeir(t, exitUsage, "", "restore", file, "--server", "x", "--mode", "add")
}

// Settings that were fixed for a data directory change at a restart.
func TestRetentionChangesAtARestart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	serveOnce(t, data, func(server string) { mustWeir(t, exitOK, "", "hit", "a", "5", "--server", server) })
	for _, retention := range []string{"60d", "1h"} {
		serveOnce(t, data, func(server string) { wantCounted(t, server, "a", "5") }, "--retention", retention)
	}
}
