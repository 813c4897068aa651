package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mustWeir runs a command line that must end with a code, and gives its output.
func mustWeir(t *testing.T, code int, stdin string, args ...string) string {
	t.Helper()
	got, stdout, stderr := weirOf(t, nil, stdin, args...)
	if got != code {
		t.Fatalf("weir %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout + stderr
}

// A backup of a running server, by file and by pipe, restored and served.
func TestBackupRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "weir.backup"), filepath.Join(dir, "restored")
	var piped string
	serveOnce(t, filepath.Join(dir, "data"), func(server string) {
		mustWeir(t, exitOK, "", "hit", "a", "5", "--server", server)
		if out := mustWeir(t, exitOK, "", "backup", file, "--server", server); !strings.Contains(out, "taken at") {
			t.Error(out)
		}
		if out := mustWeir(t, exitFailure, "", "backup", file, "--server", server); !strings.Contains(out, "--force") {
			t.Error(out)
		}
		mustWeir(t, exitOK, "", "backup", file, "--server", server, "--force")
		piped = mustWeir(t, exitOK, "", "backup", "-", "--server", server)
	})
	if out := mustWeir(t, exitOK, "", "restore", file, "--data", data); !strings.Contains(out, "retention of 30d") {
		t.Error(out)
	}
	mustWeir(t, exitOK, "", "verify", "--data", data)
	serveOnce(t, data, func(server string) { wantCounted(t, server, "a", "5") })
	if out := mustWeir(t, exitFailure, "", "restore", file, "--data", data); !strings.Contains(out, "is a data directory already") {
		t.Error(out)
	}

	again := filepath.Join(dir, "again")
	if out := mustWeir(t, exitFailure, piped[:len(piped)-1], "restore", "-", "--data", again); !strings.Contains(out, "cut short") {
		t.Error(out)
	}
	if _, err := os.Stat(again); err == nil {
		t.Error("a refused backup left a directory")
	}
	mustWeir(t, exitOK, piped, "restore", "-", "--data", again)
	serveOnce(t, again, func(server string) { wantCounted(t, server, "a", "5") })
}

func TestBackupOfEphemeral(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--ephemeral")
	file := filepath.Join(t.TempDir(), "weir.backup")
	if out := mustWeir(t, exitFailure, "", "backup", file, "--server", server); !strings.Contains(out, "ephemeral") || strings.Contains(out, "{") {
		t.Error(out)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	serveOnce(t, data, func(server string) { mustWeir(t, exitOK, "", "hit", "a", "5", "--server", server) })
	if out := mustWeir(t, exitOK, "", "verify", "--data", data); !strings.Contains(out, "sound               yes\n") || !strings.Contains(out, "hits                5\n") {
		t.Error(out)
	}
	var v verified
	if err := json.Unmarshal([]byte(mustWeir(t, exitOK, "", "verify", "--data", data, "--json")), &v); err != nil || !v.Sound || v.Hits != 5 || v.Keys != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	blocks, err := filepath.Glob(filepath.Join(data, "jetstream", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("%v, %v", blocks, err)
	}
	for _, block := range blocks {
		if err := os.WriteFile(block, bytes.Repeat([]byte{7}, 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := mustWeir(t, exitFailure, "", "verify", "--data", data)
	if !strings.Contains(out, "sound               no\n") || !strings.Contains(out, "LOST ") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--data", filepath.Join(data, "none")}, {"--data", t.TempDir()}} {
		mustWeir(t, exitFailure, "", append([]string{"verify"}, args...)...)
	}
	mustWeir(t, exitUsage, "", "verify", "there")
	mustWeir(t, exitUsage, "", "backup")
}
