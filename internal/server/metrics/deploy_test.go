package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/alerts"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/query"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/testsupport"
)

// described is the labels of each metric that there can be, by name.
func described(t *testing.T) map[string][]string {
	t.Helper()
	all := []prometheus.Collector{
		newAlarmCollector(nil), newRequestCollector(nil), newDecisionCollector(nil, nil), newClusterCollector(nil),
		newRegionCollector(nil), newLimitCollector(nil),
	}
	for _, stats := range []any{
		engine.Stats{}, durable.Stats{}, query.Stats{}, limits.OwnerStats{}, limits.Stats{}, history.Stats{}, ingest.RequestStats{}, alerts.Figures{},
		listener.Connections{}, []access.PoolFigures{}, []access.AccountFigures{}, []access.ListenerFigures{}, []activity.OutcomeFigures{}, access.TokenStats{},
		access.PolicyFileStats{}, access.KeptStats{},
	} {
		all = append(all, figures(func() any { return stats }))
	}
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m := New(s, HTTP{})
	all = append(all, m.duration, m.listeners, m.forbidden)
	metrics := map[string][]string{}
	parts := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for _, c := range all {
		out := make(chan *prometheus.Desc)
		go func() {
			c.Describe(out)
			close(out)
		}()
		for d := range out {
			match := parts.FindStringSubmatch(d.String())
			if match == nil {
				t.Fatalf("%v", d)
			}
			labels := strings.Split(match[2], ",")
			metrics[match[1]] = labels
			if strings.HasSuffix(match[1], "_request_duration_seconds") {
				metrics[match[1]+"_bucket"], metrics[match[1]+"_count"] = append(slices.Clone(labels), "le"), labels
			}
		}
	}
	return metrics
}

var (
	ownMetric = regexp.MustCompile(`\b(weir_[a-z0-9_]+)(\{[^}]*\})?`)
	matcher   = regexp.MustCompile(`([a-z_]+) *(?:=~|!~|!=|=) *"`)
)

// fits fails where an expression names a metric, or a label of one, that there never is.
func fits(t *testing.T, metrics map[string][]string, where, expr string) {
	t.Helper()
	for _, used := range ownMetric.FindAllStringSubmatch(expr, -1) {
		labels, ok := metrics[used[1]]
		if !ok {
			t.Errorf("%s: there is no metric %s: %s", where, used[1], expr)
			continue
		}
		for _, label := range matcher.FindAllStringSubmatch(used[2], -1) {
			if !slices.Contains(append([]string{"instance", "job"}, labels...), label[1]) {
				t.Errorf("%s: %s has no label %s: %s", where, used[1], label[1], expr)
			}
		}
	}
}

func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.Command(testsupport.Program(t, "promtool"), args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const deploy = "../../../deploy"

// The alert rules are of metrics that there are, and fire when they should.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus/weir-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	metrics := described(t)
	for _, rule := range rules.Groups[0].Rules {
		fits(t, metrics, rule.Alert, rule.Expr)
	}
	promtool(t, filepath.Join(deploy, "prometheus"), "check", "rules", "weir-rules.yaml")
	promtool(t, filepath.Join(deploy, "prometheus"), "test", "rules", "weir-rules-test.yaml")
}

// The Grafana dashboard asks for metrics that there are, in words of Prometheus, and no two of its panels overlap.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana/weir.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	metrics := described(t)
	for _, v := range board.Templating.List {
		fits(t, metrics, v.Name, v.Definition)
	}
	words := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	rules := "groups:\n- name: board\n  rules:\n"
	taken, ids, asked := map[[2]int]string{}, map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: its id is another's", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("%s is over %q at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			fits(t, metrics, p.Title, target.Expr)
			rules += fmt.Sprintf("  - record: board:panel%d:%s\n    expr: %q\n", p.ID, target.RefID, words.Replace(target.Expr))
			asked++
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "board.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "check", "rules", "board.yaml")
	if asked < 20 {
		t.Errorf("%d expressions", asked)
	}
}
