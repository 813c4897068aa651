package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What support does to keys of limits, and that a restart brings nothing back.
func TestLimitsSupport(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies)
	dir := filepath.Join(t.TempDir(), "data")
	type step struct {
		args string
		code int
		want string // in stdout
	}
	run := func(server string, steps []step) {
		t.Helper()
		for _, s := range steps {
			if got := mustWeir(t, s.code, "", append(strings.Fields(s.args), "--server", server)...); !strings.Contains(got, s.want) {
				t.Errorf("weir %s: %s, want %s", s.args, got, s.want)
			}
		}
	}
	serveOnce(t, dir, func(server string) {
		run(server, []step{
			{"allow login:bob:x 2", exitOK, "login  login:bob  0     2"},
			{"allow login:bob:x", exitDenied, ""},
			{"limits refund login:bob:x --limit login", exitOK, "login  1         1     login:bob"},
			{"allow login:bob:x", exitOK, ""},
			{"limits reset login login:bob", exitOK, "forgot what login:bob had used of login: 2 left\n"},
			{"limits reset login login:eve", exitOK, "login:eve had used nothing of login: 2 left\nweir limits keys login lists the keys as they are counted\n"},
			{"limits grant login login:bob 3 --for 2h", exitOK, "login:bob has 3 in addition to login until "},
			{"allow login:bob:x 4", exitOK, "login  login:bob  1 "},
			{"limits refund other", exitOK, "no policy matches other\n"},
			{"limits reset nobody a", exitFailure, ""},
			{"limits grant login login:bob x", exitUsage, ""},
			{"limits refund login:bob:x --n 0", exitUsage, ""},
		})
	}, "--policy", path)
	serveOnce(t, dir, func(server string) {
		run(server, []step{
			{"allow login:bob:x --peek --json", exitOK, `"remaining": 1`},
			{"limits grant login login:bob 0", exitOK, "login:bob has no grant of login: 0 left\n"},
			{"limits grant login login:eve 0", exitOK, "login:eve has no grant of login: 2 left\n"},
			{"limits reset login login:bob --json", exitOK, `"was": true`},
		})
	}, "--policy", path)
	serveOnce(t, dir, func(server string) {
		run(server, []step{{"allow login:bob:x --peek --json", exitOK, `"remaining": 2`}})
	}, "--policy", path)
}
