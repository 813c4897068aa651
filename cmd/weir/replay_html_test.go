package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --html writes the report as a page beside the text, and never over what is read.
func TestReplayHTML(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log, policies := file("access.log", accessLog()), file("policies.yaml", replayedPolicies)
	for name, args := range map[string][]string{
		"log.html":    {"replay", log},
		"limits.html": {"limits", "replay", log, "--policy", policies},
	} {
		page := filepath.Join(dir, name)
		code, stdout, stderr := weirOf(t, nil, "", append(args, "--html", page)...)
		if code != exitOK || !strings.Contains(stdout, "access.log") {
			t.Errorf("%s: exit %d\n%s%s", name, code, stdout, stderr)
		}
		text, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(text), `"span_s":6`) || !strings.HasSuffix(string(text), "</html>\n") {
			t.Errorf("%s: %v\n%.2000s", name, err, text)
		}
		if code, _, stderr := weirOf(t, nil, "", append(args, "--html", log)...); code != exitUsage || !strings.Contains(stderr, "--html "+log+" is a file that is read") {
			t.Errorf("over the log: exit %d %s", code, stderr)
		}
	}
}
