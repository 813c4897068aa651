package httpapi

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/ingest"
)

var asOf = regexp.MustCompile(`,"as_of":1[0-9]{9}(\.[0-9]{1,3})?`)

// withoutAsOf is an answer without what every one has.
func withoutAsOf(body string) string {
	if !asOf.MatchString(body) {
		return "no as_of in " + body
	}
	return strings.TrimSpace(asOf.ReplaceAllString(body, ""))
}

// fixedCluster is a cluster that stands still: n2 is late, n3 has left.
type fixedCluster struct {
	now  time.Time
	back bool // n2 answers who asks it
}

func (c fixedCluster) Freshness() api.Freshness {
	since := c.now.Add(-12500 * time.Millisecond)
	return api.Freshness{AsOf: api.Time{Time: since}, Late: []api.Late{{Node: "n2", Since: api.Time{Time: since}}}}
}

// Fresh finds n2 after a while, or not.
func (c fixedCluster) Fresh(ctx context.Context) (uint64, time.Time, error) {
	if c.back {
		return 7, c.now.Add(2 * time.Second), nil
	}
	<-ctx.Done()
	return 0, time.Time{}, &api.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: []string{"n2"}, Message: "newer hits of n2 may be missing: wait longer, or ask without fresh for what is known"}
}

func (c fixedCluster) Nodes(context.Context) []api.ClusterNode {
	ago := func(d time.Duration) api.Time { return api.Millis(c.now.Add(-d)) }
	ahead, wrong := 0.25, 0.001
	return []api.ClusterNode{
		{Node: "n1", Origin: "01", Epoch: 1, Self: true, Held: 170, AsOf: ago(0), Heard: ago(0)},
		{Node: "n2", Origin: "02", Epoch: 7, Late: true, AsOf: ago(12500 * time.Millisecond), Heard: ago(12 * time.Second), LagS: time.Since(c.now).Seconds() + 12.5},
		{Node: "n3", Origin: "03", Epoch: 3, Left: true, AsOf: ago(time.Hour), Heard: ago(time.Hour)},
		{Node: "n4", Origin: "04", Epoch: 1, AsOf: ago(time.Second), Heard: ago(0), LagS: time.Since(c.now).Seconds() + 1, SkewS: &ahead, SkewErrorS: &wrong},
	}
}

func (fixedCluster) Unheld() int { return 12 }

func (c fixedCluster) Remove(_ context.Context, node string) (api.RemovedAnswer, error) {
	switch node {
	case "n2":
		return api.RemovedAnswer{Node: "n2", Origins: []string{"02"}, Voter: true, Streams: []api.ClusterStream{{Name: "S", Nodes: []string{"n1", "n4"}}}}, nil
	case "n4":
		return api.RemovedAnswer{}, &api.Error{Code: api.CodeNodeHere, Message: "n4 answers: stop it"}
	case "n5":
		return api.RemovedAnswer{}, errors.New("no leader")
	}
	return api.RemovedAnswer{}, &api.Error{Code: api.CodeUnknownNode, Message: "no node is called " + node}
}

// stillJournal is one whose last attempt to write failed, or not.
type stillJournal struct {
	ingest.Journal
	cluster           fixedCluster
	failing, refusing bool
}

func (j stillJournal) AddStats(a *api.StatsAnswer) {
	a.Durable, a.Journal = true, &api.JournalStats{Failing: j.failing}
}

func (j stillJournal) AddNodes(ctx context.Context, a *api.ClusterAnswer) {
	a.Mode, a.Replicas, a.Cluster, a.Node, a.Size, a.Leader, a.SnapshotsBy = "cluster", 2, "c", "n1", 4, "n4", "n1"
	a.Servers = []api.ClusterServer{{Name: "n1", Version: "2", JetStream: true, RTTS: 0.001}}
	a.Routes = []api.ClusterRoute{{Node: "n4", Addr: "127.0.0.1:1", RTTS: 0.001, PendingBytes: 9}}
	a.Problems = append(a.Problems, "n2 does not answer")
	a.Nodes, a.Unheld, a.Journal = j.cluster.Nodes(ctx), j.cluster.Unheld(), &api.ClusterJournal{Bytes: 5}
}

func (j stillJournal) Alarms() []api.Alarm {
	if !j.failing {
		return nil
	}
	return []api.Alarm{{Code: "journal_failing", Message: "no quorum", Refusing: j.refusing}, {Code: "journal_failing", Message: "said twice"}}
}

func newClusterAPI(t *testing.T, j stillJournal) *testAPI {
	j.cluster = fixedCluster{now: time.Now()}
	return newTestAPI(t, engine.Config{Now: time.Now, Gather: true}, options{Backend: service.Backend{
		Journal: j, Cluster: j.cluster, Figures: []func() any{func() any { return durable.Stats{Failing: j.failing, Revivals: 2, Retained: 5} }},
	}})
}

func TestAnswersSayWhoIsLate(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	a.post("a 3")
	for _, path := range []string{"/v1/count?key=a", "/v1/rate?key=a", "/v1/series?key=a", "/v1/top", "/v1/keys", "/v1/cluster", "/readyz"} {
		var got struct {
			AsOf float64 `json:"as_of"`
			Late []struct {
				Node  string
				Since float64
			}
		}
		a.getInto(path, &got)
		if ago := float64(time.Now().UnixMilli())/1000 - got.AsOf; ago < 12 || ago > 60 || len(got.Late) != 1 || got.Late[0].Node != "n2" || got.Late[0].Since != got.AsOf {
			t.Errorf("GET %s: %+v, %v s ago", path, got, ago)
		}
	}
}

// While a node is late nobody knows how many hits it has taken: there is no upper bound.
func TestLateAnswersHaveNoUpperBound(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	a.post("a 3")
	const or = `"lower":3,"estimate":3,"upper":null,"exact":false`
	for path, want := range map[string]string{
		"/v1/count?key=a":                   or,
		"/v1/count?key=a&key=*&window=1m":   `{"key":"*","window_s":60,`,
		"/v1/count?key=b":                   `"lower":0,"estimate":0,"upper":null,"exact":false`,
		"/v1/rate?key=a&window=3s":          or + `,"as_of":`,
		"/v1/rate?key=a&window=3s&window=6": `"per_second":{"lower":0.5,"estimate":0.5,"upper":null}`,
		"/v1/series?key=a&step=1h":          or,
		"/v1/top":                           `{"key":"a",` + or + `}`,
	} {
		if r := a.get(path); r.status != http.StatusOK || !strings.Contains(r.body, want) || strings.Contains(r.body, `"exact":true`) || !strings.Contains(r.body, `"late":[{"node":"n2"`) {
			t.Errorf("GET %s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
}

func TestClusterAnswer(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	var got clusterAnswerForTest
	a.getInto("/v1/cluster", &got)
	if got.Mode != "cluster" || got.Node != "n1" || got.Leader != "n4" || got.SnapshotsBy != "n1" || len(got.Nodes) != 4 || len(got.Problems) != 1 || got.Replicas != 2 || got.Unheld != 12 || got.Nodes[0].Held != 170 {
		t.Fatalf("%+v", got)
	}
	if n := got.Nodes[1]; !n.Late || n.LagS < 12 || n.SkewS != nil {
		t.Errorf("n2: %+v", n)
	}
	if n := got.Nodes[2]; !n.Left || n.Late || n.LagS != 0 {
		t.Errorf("n3: %+v", n)
	}
	if n := got.Nodes[3]; n.SkewS == nil || *n.SkewS != 0.25 || n.LagS < 1 {
		t.Errorf("n4: %+v", n)
	}
	single := newTestAPI(t, engine.Config{}, options{})
	if r := single.get("/v1/cluster"); r.status != http.StatusOK || !strings.Contains(r.body, `"mode":"ephemeral"`) || !strings.Contains(r.body, `"nodes":[]`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

type clusterAnswerForTest struct {
	Mode, Node, Leader string
	SnapshotsBy        string `json:"snapshots_by"`
	Problems           []string
	Replicas, Unheld   int
	Nodes              []struct {
		Late, Left bool
		Held       int
		LagS       float64  `json:"lag_s"`
		SkewS      *float64 `json:"skew_s"`
	}
}

func TestClusterMetrics(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	r := a.get("/metrics")
	for _, want := range []string{
		`weir_cluster_nodes{state="here"} 2`, `weir_cluster_nodes{state="late"} 1`, `weir_cluster_nodes{state="left"} 1`,
		`weir_cluster_node_late{node="n2"} 1`, `weir_cluster_node_late{node="n4"} 0`, `weir_cluster_node_lag_seconds{node="n2"} 1`, // 12 s and what the test takes
		`weir_cluster_node_heard_seconds{node="n2"} 1`, `weir_cluster_clock_skew_seconds{node="n4"} 0.25`,
		`weir_cluster_partitions_held{node="n1"} 170`, "weir_cluster_partitions_unheld 12",
		"weir_journal_revivals_total 2", "weir_journal_kept_bytes 5", "weir_journal_divergence_total 0", "weir_journal_holes_total 0", "weir_journal_repaired_total 0",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestRemoveNode(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	remove := func(node string) reply { return a.do(http.MethodDelete, "/v1/cluster/nodes/"+node, "", "") }
	if r := remove("n2"); r.status != http.StatusOK || strings.TrimSpace(r.body) != `{"node":"n2","origins":["02"],"voter":true,"streams":[{"name":"S","nodes":["n1","n4"]}]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	a.wantProblem(remove("n4"), api.CodeNodeHere, http.StatusConflict)
	a.wantProblem(remove("n5"), api.CodeNotRemoved, http.StatusServiceUnavailable)
	a.wantProblem(remove("n6"), api.CodeUnknownNode, http.StatusNotFound)
	single := newTestAPI(t, engine.Config{}, options{})
	single.wantProblem(single.do(http.MethodDelete, "/v1/cluster/nodes/n2", "", ""), api.CodeNoCluster, http.StatusConflict)
}

// A node with an alarm is ready, and says what is wrong everywhere, until the alarm says
// that hits are refused.
func TestAlarms(t *testing.T) {
	well := newClusterAPI(t, stillJournal{})
	if r := well.get("/readyz"); r.status != http.StatusOK || !strings.Contains(r.body, `"status":"ok"`) || strings.Contains(r.body, "alarms") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if strings.Contains(well.get("/metrics").body, "weir_alarm{") {
		t.Error("an alarm while nothing is wrong")
	}
	const said = `"alarms":[{"code":"journal_failing","message":"no quorum"`
	a := newClusterAPI(t, stillJournal{failing: true})
	if r := a.get("/readyz"); r.status != http.StatusOK || !strings.Contains(r.body, `"status":"degraded"`) || !strings.Contains(r.body, said) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := well.get("/readyz?alarms=none"); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.get("/readyz?alarms=none"); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, said) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1/stats", "/v1/cluster"} {
		if r := a.get(path); !strings.Contains(r.body, said) {
			t.Errorf("GET %s: %s", path, r.body)
		}
		if r := well.get(path); !strings.Contains(r.body, `"alarms":[]`) {
			t.Errorf("GET %s: %s", path, r.body)
		}
	}
	if r := a.get("/metrics"); !strings.Contains(r.body, `weir_alarm{code="journal_failing"} 1`) {
		t.Errorf("%d: no alarm", r.status)
	}
	a = newClusterAPI(t, stillJournal{failing: true, refusing: true})
	a.wantProblem(a.get("/readyz"), api.CodeJournalFailing, http.StatusServiceUnavailable)
	if r := a.get("/readyz"); !strings.Contains(r.body, said) {
		t.Errorf("%s", r.body)
	}
}
