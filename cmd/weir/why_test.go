package main

import (
	"regexp"
	"strings"
	"testing"
)

// What weir allow prints of a denial is a command that says why.
func TestWhy(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies)
	server := startServer(t, "--policy", path)
	mustWeir(t, exitOK, "", "allow", "login:bob:x", "2", "--server", server)
	denied := mustWeir(t, exitDenied, "", "allow", "login:bob:y", "--server", server)
	command := regexp.MustCompile(`weir (why \w{13})\n`).FindStringSubmatch(denied)
	if command == nil {
		t.Fatal(denied)
	}
	why := mustWeir(t, exitOK, "", append(strings.Fields(command[1]), "--server", "127.0.0.1:1,"+strings.TrimPrefix(server, "http://"))...)
	for _, want := range []string{
		"denied at 20", "limit login: 2/1h, leased\n", "  policy in line 2 for login:{user}:* by login:{user}\n", "  asked for login:bob:y, counted as login:bob\n",
		"  asked for 1 when 2 of 2 were used\n", "Z  2  ", " before\n", "  it would have passed at ",
	} {
		if !strings.Contains(why, want) {
			t.Errorf("no %q in\n%s", want, why)
		}
	}
}
