// Package testsupport makes certificates for tests, and finds the external programs that they need. A test whose program is missing is
// skipped. With STRICT=1 in the environment, as in CI and `make check`, it fails. tools/programs.sh lists the programs, installs
// them, and prints what a run has left out.
package testsupport

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// LookProgram returns the path of a program, or an error if it is not installed. It also looks where
// Debian keeps programs that not every PATH has.
func LookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/sbin/", "/usr/lib/postgresql/*/bin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", err
}

// Program returns the path of a program that a test needs. A test whose program is missing ends here.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := LookProgram(name)
	if err != nil {
		Missing(tb, name)
	}
	return path
}

// File ends a test if a file that an installation leaves, such as a package of npm, is missing.
func File(tb testing.TB, path string) {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		Missing(tb, path)
	}
}

// Missing ends a test that needs what is not there: skipped, or failed with STRICT=1.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	const advice = "%s is missing: as root on Debian, tools/programs.sh installs what tests need"
	if os.Getenv("STRICT") == "1" {
		tb.Fatalf(advice, what)
	}
	tb.Skipf(advice, what)
}
