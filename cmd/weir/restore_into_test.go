package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A backup is restored into a server that runs: merged once, or in place of its counts.
func TestRestoreIntoARunningServer(t *testing.T) {
	t.Parallel()
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
	for _, c := range []struct {
		env, flags string // of server and data
		code       int
		want       string
	}{
		{"", "server data", exitUsage, "--server and --data: choose one"},
		{"server data", "", exitUsage, "WEIR_SERVER and WEIR_DATA: choose one"},
		{"data", "server", exitFailure, "nobody.invalid"},
		{"server data", "server", exitFailure, "nobody.invalid"},
		{"server", "", exitFailure, "nobody.invalid"},
		{"server data", "data", exitFailure, "not a backup"},
		{"server", "data", exitFailure, "not a backup"},
	} {
		values, env, args := map[string]string{"server": "nobody.invalid:1", "data": filepath.Join(dir, "made")}, map[string]string{}, []string{"restore", "-"}
		for name := range strings.FieldsSeq(c.env) {
			env["WEIR_"+strings.ToUpper(name)] = values[name]
		}
		for name := range strings.FieldsSeq(c.flags) {
			args = append(args, "--"+name, values[name])
		}
		if code, _, stderr := weirOf(t, env, "no backup", args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("environment %q, flags %q: %d %s", c.env, c.flags, code, stderr)
		}
	}
	mustWeir(t, exitUsage, "", "restore", file, "--server", "x", "--mode", "add")
}

// Settings that were fixed for a data directory change at a restart.
func TestRetentionChangesAtARestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	serveOnce(t, data, func(server string) { mustWeir(t, exitOK, "", "hit", "a", "5", "--server", server) })
	counts := func(server string) { wantCounted(t, server, "a", "5") }
	serveOnce(t, data, counts, "--retention", "60d")
	mustFail := func(args ...string) {
		t.Helper()
		if code, _, stderr := weirOf(t, nil, "", append([]string{"serve", "--http", "127.0.0.1:0", "--data", data}, args...)...); code != exitUsage ||
			!strings.Contains(stderr, "keeps hits for 60d") || !strings.Contains(stderr, "--shrink-retention") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	mustFail("--retention", "5m")
	mustFail() // 30d, unless it says something else
	serveOnce(t, data, counts, "--retention", "60d")
	serveOnce(t, data, counts, "--retention", "1h", "--shrink-retention")
}
