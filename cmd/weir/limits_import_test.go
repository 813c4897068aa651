package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is imported is a policy file that the next command takes; what is wrong is told by line.
func TestLimitsImport(t *testing.T) {
	t.Parallel()
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

// Limits of files are listed without a server; an environment that is made for one changes no question.
func TestLimitsOfFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "edge.yaml")
	write := func(more string) {
		t.Helper()
		text := "domain: edge\ndescriptors:\n- {key: ip, detailed_metric: true, metadata: {a: b}, rate_limit: {unit: week, unit_multiplier: 2, requests_per_unit: 7, name: x, replaces: [{name: y}]}, quota_mode: true}\n" +
			"- {key: free, shadow_mode: true, rate_limit: {unlimited: true}}\n" + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	code, text, stderr := weirOf(t, nil, "", "limits", "--rls-config", dir)
	for _, want := range []string{"rls/edge/ip    edge:ip={v1}    7/2w       enforce  quota, counted by values, metadata, name x, replaces y", "edge:free={v1}  unlimited  shadow", "the limits are valid"} {
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("%d %s%s, want %s", code, text, stderr, want)
		}
	}
	code, text, _ = weirOf(t, nil, "", "limits", "--rls-config", file, "--json")
	if code != exitOK || !strings.Contains(text, `"counts_values": true`) {
		t.Errorf("%d %s", code, text)
	}
	write("- {key: ip}\n")
	if code, _, stderr = weirOf(t, nil, "", "limits", "--rls-config", dir); code != exitFailure || !strings.Contains(stderr, file+":5: key: a second descriptor edge, ip: keep one") {
		t.Errorf("%d %s", code, stderr)
	}
	code, _, stderr = weirOf(t, map[string]string{"WEIR_RLS_CONFIG": dir}, "", "limits", "--server", "127.0.0.1:1", "--timeout", "1s")
	if code == exitOK || strings.Contains(stderr, "second descriptor") {
		t.Errorf("%d %s", code, stderr)
	}
}
