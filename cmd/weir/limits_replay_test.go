package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/replay/shadow"
)

const replayedPolicies = `limits:
  - name: address
    keys: "ip:*"
    limit: 2
    per: 1m
  - name: page
    keys: "url:*"
    limit: 1
    per: 1h
    mode: shadow
`

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLimitsReplay(t *testing.T) {
	t.Parallel()
	log := writeFile(t, "access.log", accessLog())
	policies := writeFile(t, "policies.yaml", replayedPolicies)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{log}, "page: 1 per 1h would have denied 3 of 6 requests (50.0%), of 3 of 3 keys"},
		{[]string{log}, "address: 2 per 1m would have denied 1 of 6 requests (16.7%), of 1 of 2 keys; the worst is ip:10.0.0.0 with 1 of 3. 3 per 1m would have denied nobody\n"},
		{[]string{log, "--as-written"}, "address: 2 per 1m would have denied 2 of 6 requests (33.3%), of 2 of 2 keys"},
		{[]string{log, "--key", "ip:{host}"}, "page: no line has a key url:*"},
		{[]string{log, "--json"}, `"denied_share": 0.5`},
		{[]string{"-"}, "address: 2 per 1m would have denied 1 of 6"},
	} {
		code, stdout, stderr := weirOf(t, map[string]string{"WEIR_POLICY": policies}, accessLog(), append([]string{"limits", "replay"}, c.args...)...)
		if code != exitOK || !strings.Contains(stdout, c.want) || stderr != "" {
			t.Errorf("%v: exit %d\n%s%s\nwant %s", c.args, code, stdout, stderr, c.want)
		}
		if len(c.args) > 1 && c.args[1] == "--json" {
			var r shadow.Report
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Denied != 3 || r.Policies != policies {
				t.Errorf("%v: %v", c.args, err)
			}
		}
	}
}

func TestLimitsReplayRefuses(t *testing.T) {
	log := writeFile(t, "access.log", accessLog())
	policies := writeFile(t, "policies.yaml", replayedPolicies)
	broken := writeFile(t, "broken.yaml", "limits:\n  - name: a\n    keys: \"ip:*\"\n    limit: many\n    per: 1m\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{log}, exitUsage, "--policy is missing"},
		{[]string{"--policy", policies}, exitUsage, "needs FILE"},
		{[]string{"--policy", broken, log}, exitFailure, broken + `:4: limit: "many" is not a whole number`},
		{[]string{"--policy", "none.yaml", log}, exitFailure, "none.yaml: no such file"},
		{[]string{"--policy", policies, "none.log"}, exitFailure, "none.log: no such file"},
		{[]string{"--policy", policies, log, "--key", "x:{host}"}, exitFailure, "the lines make keys like x:10.0.0.0, the policies are for ip:*, url:*"},
		{[]string{"--policy", policies, log, "--key", "x:{hots}"}, exitUsage, "--key"},
		{[]string{"--policy", policies, log, "--top", "20000"}, exitUsage, "--top"},
		{[]string{"--policy", policies, log, "--memory", "1KiB"}, exitUsage, "--memory"},
		{[]string{"--policy", policies, log, "--limit-memory", "1KiB"}, exitUsage, "--limit-memory"},
	} {
		code, _, stderr := weirOf(t, nil, "", append([]string{"limits", "replay"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, want %d\n%s\nwant %s", c.args, code, c.code, stderr, c.want)
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != accessLog() {
		t.Errorf("the log has %d bytes, %v", len(text), err)
	}
}
