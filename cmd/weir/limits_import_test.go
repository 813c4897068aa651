package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is imported is a policy file that the next command takes; what is wrong is told by line.
func TestLimitsImport(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) (path string) {
		t.Helper()
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	limits := write("edge.yaml", "domain: edge\ndescriptors:\n- key: remote_address\n  rate_limit: {unit: minute, requests_per_unit: 10}\n")
	code, made, notes := weirOf(t, nil, "", "limits", "import", dir)
	if code != exitOK || !strings.Contains(made, `keys: "edge:remote_address={v1}"`) || !strings.Contains(notes, "changed: a period is any interval") {
		t.Fatalf("%d %s%s", code, made, notes)
	}
	code, checked, _ := weirOf(t, nil, made, "limits", "check", "-", "edge:remote_address=10.0.0.1")
	if code != exitOK || !strings.Contains(checked, "rls/edge/remote_address") {
		t.Errorf("%d %s", code, checked)
	}
	write("more.yaml", "domain: edge")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{dir, "--rls-merge-domains"}, exitOK, "changed:"},
		{[]string{dir}, exitFailure, `more.yaml:1: domain: "edge" is in ` + limits + " too"},
		{[]string{filepath.Join(dir, "no")}, exitFailure, "no such file"},
		{nil, exitUsage, "FILE|DIR"},
	} {
		code, _, stderr := weirOf(t, nil, "", append([]string{"limits", "import"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: %d %s", c.args, code, stderr)
		}
	}
}
