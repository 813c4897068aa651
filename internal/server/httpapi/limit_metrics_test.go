package httpapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/policy"
)

// nobody decides strict and leased limits: the owners are unreachable.
type nobody struct{}

func (nobody) Take([]engine.Check, []engine.Verdict) (allowed, decided bool) { return false, false }

func (nobody) Group(string) int { return 0 }

func (nobody) Decide(context.Context, []engine.Check, []engine.Verdict, bool) (allowed, answered bool, err error) {
	return false, false, nil
}

func (nobody) Change(engine.Change, engine.Check) (made engine.Changed, answered bool, err error) {
	return made, false, nil
}

// What limits do among nodes is reported by the answer, the list of policies and metrics.
func TestLimitsAmongNodes(t *testing.T) {
	set, err := policy.Parse("policies.yaml", []byte(`limits:
  - {name: closed, keys: "c", limit: 9, per: 1m, where: strict}
  - {name: open, keys: "s", limit: 9, per: 1m, where: strict, away: open}
  - {name: own, keys: "n", limit: 2, per: 1m, where: node}
  - {name: far, keys: "g", limit: 2, per: 1m, where: shared}
`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Gather: true, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	live, err := admit.NewClusterLive(e, set, admit.Cluster{Node: "n1", Owners: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	a := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live, Cluster: fixedCluster{now: start}, Figures: []func() any{func() any {
		return limits.Stats{Local: 11, Asked: 12, Served: 13, Short: 14, Keys: 15, Granted: 16, Out: 17}
	}, func() any {
		return limits.OwnerStats{Held: 5, Decided: 6, Forwarded: 7, Unanswered: 8, Lost: 9, Refused: 10}
	}}}})
	r := a.allow(`{"key":"c"}`)
	if want := `"code":"owner_unreachable"`; r.status != 503 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, want) {
		t.Errorf("%d %s, want %s", r.status, r.body, want)
	}
	if r := a.allow(`{"key":"s"}`); r.status != 200 || !strings.Contains(r.body, `"away":"open",`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, body := range []string{`{"key":"g"}`, `{"key":"g","limit":{"n":1,"per":"1s"}}`} {
		if r := a.allow(body); r.status != 503 || !strings.Contains(r.body, `"code":"owner_unreachable"`) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `"where":"strict","away":"open"`) || !strings.Contains(r.body, `"where":"node",`) {
		t.Errorf("%s", r.body)
	}
	prepared, err := live.Prepare("rls/x", admit.Limit{N: 1, Per: time.Second}, policy.Enforce) // as a listener has it
	if err != nil {
		t.Fatal(err)
	}
	prepared.Use()
	defer prepared.Release()
	var d admit.Decision
	if err := live.TakeNow([]admit.Request{{Key: "k", N: 1, Prepared: prepared}}, &d); err != nil {
		t.Fatal(err)
	}
	r = a.get("/metrics")
	for _, want := range []string{
		`weir_limit_away_total{away="closed",limit="closed"} 1`, `weir_limit_away_total{away="open",limit="open"} 1`,
		`weir_limit_away_total{away="closed",limit="far"} 1`, `weir_limit_away_total{away="closed",limit="inline/*"} 1`,
		`weir_limit_away_total{away="closed",limit="rls/x"} 1`,
		"weir_leased_local_total 11", "weir_leased_messages_total 12", "weir_leased_served_total 13", "weir_leased_short_total 14",
		"weir_leased_keys 15", "weir_leased_granted 16", "weir_leased_out 17",
		"weir_limit_strict_lost_total 0", "weir_strict_groups_held 5", "weir_strict_decided_total 6", "weir_strict_forwarded_total 7",
		"weir_strict_unanswered_total 8", "weir_strict_unacknowledged_total 9", "weir_strict_refused_total 10",
	} {
		if !strings.Contains(r.body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
