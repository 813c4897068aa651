package envoy

import (
	"os"
	"strings"
	"testing"
)

// The first limits of docs/envoy.md do what the page says.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n")
	_, limits, _ := strings.Cut(block, "<<'END'\n")
	limits, rest, _ := strings.Cut(limits, "END\n")
	if !strings.Contains(rest, "weir serve --ephemeral --rls ") || !strings.Contains(rest, "edge:remote_address={v1}") {
		t.Fatalf("the page goes on with %q", rest)
	}
	newTestServer(t, options{limits: limits}).says("edge", `
		remote_address=10.0.0.1 -> OK, ok 1/2
		remote_address=10.0.0.1 -> OK, ok 0/2
		remote_address=10.0.0.1 -> OVER, over 0/2
		remote_address=10.0.0.2 -> OK, ok 1/2`)
}
