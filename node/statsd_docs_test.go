package node_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// The commands of docs/statsd.md print what the page says.
func TestStatsDDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/statsd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	n := nodetest.Start(t, func(cfg *node.Config) { cfg.StatsD.Addr = "127.0.0.1:0" })
	here := strings.NewReplacer("127.0.0.1/8125", strings.ReplaceAll(n.StatsDAddr(), ":", "/"))
	var path string
	sent, asked := 0, 0
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "make run "):
		case strings.HasPrefix(line, "curl -s "):
			_, path, _ = strings.Cut(line, "localhost:8080")
			path, _, _ = strings.Cut(path, " |")
			path = strings.TrimSuffix(path, "'")
			asked++
		case strings.HasPrefix(line, "# "):
			want := regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line[2:]), `\.\.\.`, `.*`))
			transporttest.Eventually(t, path+" answers "+line[2:], func() bool {
				answer := httptest.NewRecorder()
				n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
				return want.MatchString(answer.Body.String())
			})
		default:
			if out, err := exec.CommandContext(t.Context(), "bash", "-c", here.Replace(line)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v %s", line, err, out)
			}
			sent++
		}
	}
	if sent != 3 || asked != 2 {
		t.Errorf("%d commands that send, %d that ask", sent, asked)
	}
}
