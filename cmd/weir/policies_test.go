package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What weir policies puts is there after a restart, and in a directory that is made of a backup.
func TestPolicyVerbs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "keys: \"api:{user}\"\nlimit: 3\nper: 1h\n", bad: "keys: \"api:{user}\"\nlimt: 3\nper: 1h\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, _ := policyFile(t, loginPolicies)
	type step struct {
		args string
		code int
		want string // in stdout or stderr
	}
	run := func(server string, steps []step) {
		t.Helper()
		for _, s := range steps {
			code, stdout, stderr := weirOf(t, map[string]string{"WEIR_SERVER": server}, "", strings.Fields(s.args)...)
			if code != s.code || !strings.Contains(stdout+stderr, s.want) {
				t.Errorf("weir %s: %d %s%s, want %d %s", s.args, code, stdout, stderr, s.code, s.want)
			}
		}
	}
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "weir.backup")
	serveOnce(t, data, func(server string) {
		run(server, []step{
			{"policies", exitOK, "the API has no policies"},
			{"policies put api " + good + " --new", exitOK, "api has version 1\n"},
			{"policies put api " + good + " --new", exitFailure, "version_mismatch"},
			{"policies put api " + good + " --version 1", exitOK, "api has version 2\n"},
			{"policies put api " + good + " --version 1", exitFailure, "and version 1 was asked for"},
			{"policies put api " + good + " --version 1 --new", exitUsage, "choose one"},
			{"policies put other " + bad, exitFailure, "other:2: limt: unknown field, did you mean limit?"},
			{"policies put login " + good, exitFailure, "policy_in_file"},
			{"policies put gone " + good, exitOK, "gone has version 3\n"},
			{"policies delete gone --version 2", exitFailure, "version_mismatch"},
			{"policies delete gone", exitOK, "gone is deleted; it had version 3\n"},
			{"policies get gone", exitFailure, "unknown_limit"},
			{"policies", exitOK, "NAME  VERSION  BY       AT "},
			{"policies get api", exitOK, "# version 2, put by anybody at "},
			{"limits", exitOK, "enforce, by API (version 2)"},
			{"allow api:bob 3", exitOK, "allowed"},
		})
	}, "--policy", path)
	serveOnce(t, data, func(server string) {
		run(server, []step{
			{"policies get api", exitOK, "limit: 3\n"},
			{"allow api:bob", exitDenied, ""},
			{"backup " + file, exitOK, ""},
		})
	}, "--policy", path)
	made := filepath.Join(dir, "made")
	mustWeir(t, exitOK, "", "restore", file, "--data", made)
	serveOnce(t, made, func(server string) {
		run(server, []step{{"policies get api", exitOK, "limit: 3\n"}, {"allow api:bob", exitDenied, ""}})
	})
	serveOnce(t, made, func(server string) {
		run(server, []step{{"policies", exitFailure, "policies_api_off"}, {"limits", exitOK, "no policies"}})
	}, "--policies-api", "off")
}
