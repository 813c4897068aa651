package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Everything that prints JSON names the same things alike: durations are ..._s, times are
// Unix seconds.
func TestNamesInJSON(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(accessLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	path, _ := policyFile(t, "limits:\n  - {name: address, keys: \"ip:*\", limit: 1, per: 1m}\n")
	dir := filepath.Join(t.TempDir(), "data")
	var answers []string
	serveOnce(t, dir, func(server string) {
		for _, args := range []string{"hit a", "count a", "rate a", "series a", "top", "stats", "limits", "cluster", "limits keys address", "allow ip:1"} {
			_, stdout, stderr := weirOf(t, map[string]string{"WEIR_SERVER": server}, "", append(strings.Fields(args), "--json")...)
			if stdout == "" {
				t.Errorf("%s: %s", args, stderr)
			}
			answers = append(answers, args, stdout)
		}
	}, "--policy", path)
	for _, args := range [][]string{
		{"replay", log, "-n", "3"}, {"limits", "replay", "--policy", path, log}, {"verify", "--data", dir},
	} {
		_, stdout, stderr := weirOf(t, nil, "", append(args, "--json")...)
		if stdout == "" {
			t.Errorf("%s: %s", args, stderr)
		}
		answers = append(answers, args[0], stdout)
	}
	wrongName := regexp.MustCompile(`"[a-z_]*_seconds"`)
	wrongTime := regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[^"]*"`)
	for i := 0; i < len(answers); i += 2 {
		if !json.Valid([]byte(answers[i+1])) {
			t.Errorf("%s: not JSON:\n%s", answers[i], answers[i+1])
		}
		for _, wrong := range []*regexp.Regexp{wrongName, wrongTime} {
			if found := wrong.FindAllString(answers[i+1], -1); found != nil {
				t.Errorf("%s: %s", answers[i], found)
			}
		}
	}
}
