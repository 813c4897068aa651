package envoy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/testprogram"
)

// The first commands of docs/envoy.md do what the page says, with this server in place of weir serve.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	_, limits, _ := strings.Cut(block, "<<'END'\n")
	limits, rest, _ := strings.Cut(limits, "END\n")
	serve, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(serve, "weir serve ") {
		t.Fatalf("the page has %q where the server starts", serve)
	}
	s := newTestServer(t, options{limits: limits})
	testprogram.Path(t, "curl")
	var script, want strings.Builder
	for line := range strings.Lines(rest) {
		if output, is := strings.CutPrefix(line, "# "); is {
			want.WriteString(output)
			continue
		}
		script.WriteString(line)
	}
	file := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(script.String(), "127.0.0.1:8081", s.Addr())), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := exec.CommandContext(t.Context(), "sh", file).CombinedOutput()
	if err != nil || string(got) != want.String() || !strings.Contains(want.String(), "429") {
		t.Errorf("%v: %s", err, got)
	}
}
