package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	for _, want := range []string{"rls/edge/ip  edge:ip={v1}  7/2w   enforce", "the limits are valid"} {
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("%d %s%s, want %s", code, text, stderr, want)
		}
	}
	code, text, _ = weirOf(t, nil, "", "limits", "--rls-config", file, "--json")
	if code != exitOK || !strings.Contains(text, `"name": "rls/edge/ip"`) {
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
