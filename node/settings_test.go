package node

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/alerts"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/policy"
)

// Another value of a setting that all nodes of a cluster need alike has another hash, and changes no other.
func TestSettingsOfACluster(t *testing.T) {
	t.Parallel()
	settings := func(file string, change func(*Config)) membership.Settings {
		set, err := policy.Parse("policies.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		live, err := admit.NewClusterLive(e, set, admit.Cluster{})
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{cfg: Config{History: History{On: true}}}
		if change != nil {
			change(&n.cfg)
		}
		if n.cfg.Alerts.File != "" {
			if n.alerts, err = alerts.Open(n.cfg.Alerts, nil, "", "", slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
		}
		return n.settings(live)
	}
	const file = "limits: [{name: a, keys: 'a:*', limit: 5, per: 1m}]"
	all := settings(file, nil)
	if again := settings(file, func(c *Config) { c.History.Keep = history.DefaultKeep() }); !maps.Equal(again, all) {
		t.Errorf("%v, want %v", again, all)
	}
	rules := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(rules, []byte("{to: [{name: x, url: 'http://127.0.0.1:1'}], alerts: [{name: a, keys: b, window: 1m, above: 1, to: x}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	others := map[string]membership.Settings{
		"--alerts":         settings(file, func(c *Config) { c.Alerts.File = rules }),
		"--policy":         settings("limits: [{name: a, keys: 'a:*', limit: 6, per: 1m}]", nil),
		"--policies-api":   settings(file, func(c *Config) { c.Policies.API = APIWins }),
		"--max-inline-per": settings(file, func(c *Config) { c.Service.MaxInlinePer++ }),
		"--replicas":       settings(file, func(c *Config) { c.Journal.Replicas = 2 }),
		"--region":         settings(file, func(c *Config) { c.Regions.Region = "eu" }),
		"--history-keep":   settings(file, func(c *Config) { c.History.Keep = []store.Keep{{Slots: 48 * time.Hour, Days: 96 * time.Hour}} }),
	}
	for name := range all {
		other := others[name]
		if other == nil {
			t.Errorf("%s is not tried", name)
			continue
		}
		for k := range other {
			if same := other[k] == all[k]; same != (k != name) {
				t.Errorf("%s changes %s, %v to %v", name, k, all[k], other[k])
			}
		}
	}
}
