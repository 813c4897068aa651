package main

import (
	"strings"
	"testing"
)

// One command deletes the keys of a prefix and resets them for all limits; without being asked it resets none.
func TestDeleteWithLimits(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies)
	server := startServer(t, "--policy", path)
	run := func(args ...string) string {
		t.Helper()
		return mustWeir(t, exitOK, "", append(args, "--server", server)...)
	}
	run("allow", "login:bob:x")
	run("allow", "login:eve:x")
	run("limits", "ban", "login", "login:bob", "--for", "2h")
	run("delete", "--prefix", "login:bob")
	mustWeir(t, exitDenied, "", "allow", "login:bob:x", "--server", server)
	run("delete", "--prefix", "login:bob", "--limits")
	if got := run("limits", "keys", "login"); strings.Contains(got, "bob") || !strings.Contains(got, "login:eve") {
		t.Error(got)
	}
	run("allow", "login:bob:x")
	mustWeir(t, exitUsage, "", "delete", "login:bob", "--limits", "--server", server)
}
