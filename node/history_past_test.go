package node_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// days is how far back hits go in these tests: far beyond the retention.
const days = 900

// Hits older than the retention are in the history once, each in its day, over restarts and
// deletions, and in no window.
func TestHistoryOfThePast(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, nil)
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	rnd := rand.New(rand.NewPCG(3, 4))
	want := map[string]*[days + 1]uint64{"a": {}, "b": {}, "limit:x": {}, "*": {}}
	keys := []string{"a", "b", "limit:x"}
	inWindows := uint64(0)
	for round := range 4 {
		for range 3000 {
			key, second, hits := keys[rnd.IntN(3)], rnd.IntN(days*86400), 1+rnd.Uint64N(9)
			outcome, err := n.Engine().HitAt(first.Add(time.Duration(second)*time.Second), key, hits)
			if err != nil {
				t.Fatal(err)
			}
			if age := days - second/86400; age > 32 && outcome != engine.ForHistory || age < 30 && outcome == engine.ForHistory {
				t.Fatalf("a hit of %d days ago is %s", age, outcome)
			}
			want[key][second/86400] += hits
			if key != "limit:x" {
				want["*"][second/86400] += hits
				if outcome != engine.ForHistory {
					inWindows += hits
				}
			}
		}
		switch round {
		case 1:
			nodetest.Close(t, n)
			n = historical(t, dir, nil)
		case 2: // a key is deleted with all hits that were taken before
			if existed, err := n.Engine().Delete("b"); err != nil || !existed {
				t.Fatal(existed, err)
			}
			*want["b"] = [days + 1]uint64{}
		}
		for key, totals := range want {
			got := aligned(t, n, fmt.Sprintf("key=%s&align=day&from=%d", key, first.Unix()))
			if len(got.Points) != days+1 || got.Source != "history" {
				t.Fatalf("%d points of %s", len(got.Points), got.Source)
			}
			for i, p := range got.Points {
				if !p.Exact || p.Estimate != totals[i] {
					t.Fatalf("round %d, %s, day %d: %s, want %d", round, key, i, p.Bounds, totals[i])
				}
			}
		}
	}
	sums := map[string]uint64{}
	for _, key := range []string{"a", "b"} {
		for _, n := range want[key] {
			sums[key] += n
		}
	}
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	top, err := c.Top(t.Context(), client.TopQuery{Align: "day", From: first, Zone: "Europe/Berlin"})
	if err != nil || len(top.Keys) != 2 || top.Source != "history" {
		t.Fatal(top, err)
	}
	for _, k := range top.Keys {
		if !k.Exact || k.Lower != sums[k.Key] {
			t.Errorf("of the keys with the most hits %s has %s, want %d", k.Key, k.Bounds, sums[k.Key])
		}
	}
	if got := n.Engine().Stats().Hits; got != inWindows {
		t.Errorf("windows have %d hits, want %d", got, inWindows)
	}
}

// The listener says what became of hits: history keeps some that windows do not, as long as the days of
// their keys, and a deletion takes those that history alone knows.
func TestHitsOfThePastByTheListener(t *testing.T) {
	t.Parallel()
	n := historical(t, filepath.Join(t.TempDir(), "data"), func(cfg *node.Config) {
		cfg.History.Keep = []store.Keep{{Slots: 400 * 24 * time.Hour, Days: 1000 * 24 * time.Hour}, {Prefix: "user:", Slots: 24 * time.Hour, Days: 50 * 24 * time.Hour}}
	})
	ago := func(days int) time.Time { return time.Now().UTC().Truncate(time.Hour).AddDate(0, 0, -days) }
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hits := []client.Hit{
		{Key: "a", N: 1, At: ago(0)}, {Key: "a", N: 2, At: ago(100)}, {Key: "a", N: 4, At: ago(999)}, {Key: "a", N: 8, At: ago(1002)},
		{Key: "user:1", N: 16, At: ago(45)}, {Key: "user:1", N: 32, At: ago(60)}, {Key: "old", N: 64, At: ago(200)},
	}
	got, err := c.Send(t.Context(), hits)
	if err != nil || got.Counted != 1+2+4+16+64 || got.History != 2+4+16+64 || got.TooLate != 8+32 || got.Rejected != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	response, err := http.Post("http://"+n.Addr()+"/v1/hits", "text/plain", strings.NewReader(fmt.Sprintf("a 8 %d", ago(1002).Unix())))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnprocessableEntity {
		t.Error("a hit that nobody keeps:", response.Status)
	}
	count := func(key string) (hits uint64) {
		for _, p := range aligned(t, n, "key="+key+"&align=month&from=-999d").Points {
			hits += p.Lower
		}
		return hits
	}
	for key, want := range map[string]uint64{"a": 7, "user:1": 16, "old": 64, "*": 87} {
		if got := count(key); got != want {
			t.Errorf("%s has %d hits, want %d", key, got, want)
		}
	}
	for key, want := range map[string]struct {
		days int
		n    uint64
	}{"old": {200, 64}, "a": {100, 2}, "user:1": {45, 16}} {
		at := ago(want.days).Truncate(24 * time.Hour).Add(24*time.Hour - time.Second)
		counts, err := c.Count(t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{24 * time.Hour}, At: at, Fresh: 10 * time.Second})
		if err != nil || counts[0].Lower != want.n || !counts[0].Exact || counts[0].Source != "history" {
			t.Errorf("a day of %s that history alone knows: %+v, %v", key, counts, err)
		}
	}
	if err := c.Delete(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]uint64{"old": 0, "a": 7} {
		if got := count(key); got != want {
			t.Errorf("%s has %d hits, want %d", key, got, want)
		}
	}
}

// In a cluster each node's history has the hits of the past that any node took, also those that came
// while it was away, and none that was taken before a deletion at another node.
func TestHitsOfThePastInACluster(t *testing.T) {
	t.Parallel()
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	up := func(which ...int) {
		t.Helper()
		startNodes(t, nodes, members, func(_ int, cfg *node.Config) { cfg.History.On, cfg.History.Every = true, 100*time.Millisecond }, which...)
	}
	up(0, 1, 2)
	old := time.Now().AddDate(0, 0, -days)
	check := func(what, key string, want uint64) {
		t.Helper()
		for i, n := range nodes {
			if n == nil {
				continue
			}
			if got := aligned(t, n, fmt.Sprintf("key=%s&align=month&from=%d", key, old.Unix())); got.Points[0].Estimate != want || !got.Points[0].Exact {
				t.Errorf("%s: node %d has %s of %s, want %d", what, i, got.Points[0].Bounds, key, want)
			}
		}
	}
	for i, n := range nodes {
		hitAt(t, n, "a", old, uint64(1+i))
		hitAt(t, n, "b", old, 1)
	}
	hitAt(t, nodes[0], "b", time.Now(), 1)
	check("three nodes", "a", 6)
	check("three nodes", "b", 3)
	if existed, err := nodes[0].Engine().Delete("b"); err != nil || !existed {
		t.Fatal(existed, err)
	}
	check("deleted", "b", 0)
	nodetest.Close(t, nodes[2])
	nodes[2] = nil
	hitAt(t, nodes[0], "a", old, 10)
	hitAt(t, nodes[1], "b", old, 5)
	check("one is away", "a", 16)
	up(2)
	check("it is back", "a", 16)
	check("it is back", "b", 5)
}
