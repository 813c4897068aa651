package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

func newService(t *testing.T, now func() time.Time) (*engine.Engine, *service.Service) {
	t.Helper()
	e, err := engine.New(engine.Config{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// Keys that begin with a prefix have their hits of 5 minutes and their rate, others have not.
func TestKeySeries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_769_860_800, 0)
	engine, s := newService(t, func() time.Time { return now })
	for key, n := range map[string]uint64{"url:/home": 120, "url:/a\"b\n": 6, "url:\xff": 5, "user:1": 1000} {
		if err := engine.HitN(key, n); err != nil {
			t.Fatal(err)
		}
	}
	c := newKeyCollector(s, []string{"url:", "url:/h", "none:"})
	c.clock = func() time.Time { return now }
	if !slices.Equal(c.prefixes, []string{"none:", "url:"}) {
		t.Errorf("%q", c.prefixes)
	}
	text := scrape(t, c)
	for _, want := range []string{
		`weir_key_hits{key="url:/a\"b\n"} 6`, `weir_key_hits{key="url:/home"} 120`, `weir_key_hits_per_second{key="url:/a\"b\n"} 0.1`,
		`weir_key_hits_per_second{key="url:/home"} 2`, `weir_key_hits_lower{key="url:/home"} 120`, `weir_key_hits_upper{key="url:/home"} 120`,
		`weir_key_hits_per_second_upper{key="url:/home"} 2`, `weir_key_series_left_out 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for i := range 400 {
		if err := engine.HitN(fmt.Sprintf("url:%03d", i), 7); err != nil {
			t.Fatal(err)
		}
	}
	if n := series(scrape(t, c)); n != 2*keySeries+1 {
		t.Errorf("%d series: keys are chosen anew at once", n)
	}
	now = now.Add(minChoice)
	if n := series(scrape(t, c)); n > MaxKeySeries || n < MaxKeySeries-keySeries {
		t.Errorf("%d series", n)
	}
	if !c.more {
		t.Error("some are left out, and nobody learns it")
	}
}

// scrape is what Prometheus reads of a collector.
func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

// series counts the lines of a scrape that are series.
func series(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
