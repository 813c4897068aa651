package main

import (
	"net"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	datadog "github.com/DataDog/datadog-go/v5/statsd"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
)

// openStatsD starts a node whose keys have the tag route.
func openStatsD(t *testing.T) *node.Node {
	t.Helper()
	var cfg node.Config
	cfg.Ephemeral = true
	cfg.HTTP.Addr, cfg.StatsD.Addr, cfg.StatsD.Key = "127.0.0.1:0", "127.0.0.1:0", "{name}:{tag:route}"
	return openNode(t, cfg)
}

// wantHits waits until keys have as many hits as senders sent.
func wantHits(t *testing.T, n *node.Node, want map[string]uint64) {
	t.Helper()
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for key, hits := range want {
		var got []api.CountAnswer
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(key, got)
			}
		})
		transporttest.Eventually(t, key+" is counted", func() bool {
			if got, err = c.Count(t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{time.Hour}}); err != nil {
				t.Fatal(err)
			}
			return got[0].Estimate >= hits
		})
		if got[0].Estimate != hits {
			t.Errorf("%s: %d hits, want %d", key, got[0].Estimate, hits)
		}
	}
}

// wantRefused waits until lines of some reasons were refused, and of no other.
func wantRefused(t *testing.T, n *node.Node, reasons ...string) {
	t.Helper()
	transporttest.Eventually(t, "lines are refused", func() bool {
		answer := httptest.NewRecorder()
		n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
		for _, reason := range reasons {
			if !strings.Contains(answer.Body.String(), `weir_listener_rejected_total{listener="statsd",reason="`+reason+`"} `) {
				return false
			}
		}
		if got := strings.Count(answer.Body.String(), "\nweir_listener_rejected_total{"); got != len(reasons) {
			t.Errorf("lines were refused for %d reasons, want %d", got, len(reasons))
		}
		return true
	})
}

// datadog-go sums up in the process, and packs the values of histograms; of several goroutines nothing is lost.
func TestDatadogGo(t *testing.T) {
	t.Parallel()
	n := openStatsD(t)
	c, err := datadog.New(n.StatsDAddr(), datadog.WithNamespace("shop."), datadog.WithTags([]string{"env:test"}), datadog.WithoutTelemetry(), datadog.WithExtendedClientSideAggregation())
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		_ = c.Incr("orders", []string{"route:/buy"}, 1) // its errors are of what it does later
		_ = c.Count("items", 3, nil, 1)
	}
	_ = c.CountWithTimestamp("orders", 7, []string{"route:/late"}, 1, time.Now().Add(-time.Minute))
	_ = c.Gauge("depth", 5, nil, 1)
	_ = c.Histogram("size", 5, nil, 1)
	_ = c.Set("users", "bob", nil, 1)
	_ = c.SimpleEvent("deploy", "done")
	_ = c.SimpleServiceCheck("db", datadog.Ok)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	wantHits(t, n, map[string]uint64{"shop.orders:/buy": 1000, "shop.items:-": 3000, "shop.orders:/late": 7, "shop.users:-": 1})
	wantRefused(t, n, "unsupported_gauge", "unsupported_histogram", "unsupported_event", "unsupported_service_check")
}

// hot-shots sends by UDP and TCP, several lines in a datagram.
func TestHotShots(t *testing.T) {
	t.Parallel()
	n := openStatsD(t)
	runNode(t, "hotshots.js", n.StatsDAddr())
	wantHits(t, n, map[string]uint64{"udp.hits:/a": 1000, "udp.sampled:-": 40, "tcp.hits:/a": 1000, "tcp.sampled:-": 40})
	wantRefused(t, n, "unsupported_timer", "negative")
}

// python-statsd sends by both, alone and in pipelines.
func TestPythonStatsD(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "statsd")
	n := openStatsD(t)
	host, port, err := net.SplitHostPort(n.StatsDAddr())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", `
import statsd, sys
to = dict(host=sys.argv[1], port=int(sys.argv[2]))
for name, c in (("udp", statsd.StatsClient(prefix="udp", **to)), ("tcp", statsd.TCPStatsClient(prefix="tcp", **to))):
    for _ in range(100):
        c.incr("hits")
        c.incr("many", 5)
    with c.pipeline() as p:
        for _ in range(50):
            p.incr("packed")
        p.gauge("depth", 3)
        p.timing("took", 12)
        p.set("users", "bob")
    c.decr("hits")
    c.close()
`, host, port).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]uint64{}
	for _, network := range []string{"udp.", "tcp."} {
		want[network+"hits:-"], want[network+"many:-"], want[network+"packed:-"] = 100, 500, 50
		want[network+"users:-"] = 1
	}
	wantHits(t, n, want)
	wantRefused(t, n, "unsupported_gauge", "unsupported_timer", "negative")
}
