package main

import (
	"strings"
	"testing"
)

// Bans are listed, and marked among the keys that have used most; who is limited is asked of all servers that are named.
func TestBansAreListed(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies)
	server := startServer(t, "--policy", path)
	run := func(args ...string) string {
		t.Helper()
		return mustWeir(t, exitOK, "", append(args, "--server", "127.0.0.1:1,"+strings.TrimPrefix(server, "http://"))...)
	}
	if got := run("limits", "bans"); got != "no key is banned now\n" {
		t.Error(got)
	}
	run("allow", "login:bob:x")
	run("limits", "ban", "login", "login:bob", "--for", "2h")
	mustWeir(t, exitDenied, "", "allow", "login:bob:x", "--server", server)
	if got := run("limits", "bans"); !strings.Contains(got, "login  login:bob\n") {
		t.Error(got)
	}
	if got := run("limits", "who"); !strings.Contains(got, "login  login:bob\n") {
		t.Error(got)
	}
	if got := run("limits", "keys", "login"); !strings.Contains(got, "login:bob  banned for ") || !strings.Contains(got, " more\n") {
		t.Error(got)
	}
}
