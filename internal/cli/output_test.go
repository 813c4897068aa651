package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that is redirected to the input is a file, too.
func TestCreateOutput(t *testing.T) {
	t.Parallel()
	const text = "10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if _, err := CreateOutput("--denied", log, stdin, []string{"-"}); err == nil || !strings.Contains(err.Error(), "is a file that is read") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadFile(log); err != nil || string(left) != text {
		t.Errorf("the log has %q, %v", left, err)
	}
}
