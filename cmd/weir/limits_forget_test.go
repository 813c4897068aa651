package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What keys have used of limits of requests' own comes back after a restart, until it is
// forgotten: then it does not.
func TestLimitsForget(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	left := func(server string) string {
		return mustWeir(t, exitOK, "", "allow", "a", "--limit", "mine", "--n", "10", "--per", "1h", "--peek", "--json", "--server", server)
	}
	serveOnce(t, dir, func(server string) {
		mustWeir(t, exitOK, "", "allow", "a", "--limit", "mine", "--n", "10", "--per", "1h", "--server", server)
	})
	serveOnce(t, dir, func(server string) {
		if got := left(server); !strings.Contains(got, `"remaining": 9`) {
			t.Errorf("after a restart: %s", got)
		}
		if got := mustWeir(t, exitOK, "", "limits", "forget", "--all", "--server", server); got != "forgot what 1 keys had used\n" {
			t.Errorf("forgotten: %s", got)
		}
		if got := left(server); !strings.Contains(got, `"remaining": 10`) {
			t.Errorf("after forgetting: %s", got)
		}
	})
	serveOnce(t, dir, func(server string) {
		if got := left(server); !strings.Contains(got, `"remaining": 10`) {
			t.Errorf("after forgetting and a restart: %s", got)
		}
		mustWeir(t, exitUsage, "", "limits", "forget", "--server", server)
		mustWeir(t, exitUsage, "", "limits", "forget", "mine", "--all", "--server", server)
	})
}
