package node_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// Every node's history gives the same answer and the same export: after a node alone has become a cluster, after a node has been
// replaced, and after a node has lost its history.db. Nodes copy what they lack, and say until then that hits may be missing.
func TestEveryNodeHasTheWholeHistory(t *testing.T) {
	t.Parallel()
	members := transporttest.New(t, 4, nil)
	old := time.Now().AddDate(0, 0, -days)
	single := historical(t, members.Configs[0].Dir, func(cfg *node.Config) { cfg.Journal.MaxBytes = 256 << 20 })
	hitAt(t, single, "a", old, 7)
	hitAt(t, single, "b", time.Now().Add(-time.Hour), 1)
	if got := aligned(t, single, fmt.Sprintf("key=a&align=month&from=%d", old.Unix())); got.Points[0].Estimate != 7 {
		t.Fatal(got.Points[0])
	}
	nodetest.Close(t, single)
	for i := range members.Configs[:3] {
		members.Configs[i].Peers = members.Configs[0].Peers[:3]
	}
	nodes := make([]*node.Node, 4)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	up := func(which ...int) {
		t.Helper()
		startNodes(t, nodes, members, func(_ int, cfg *node.Config) {
			cfg.Logger = transporttest.Logger(t, slog.LevelWarn) // says why a copy fails
			cfg.History.On, cfg.History.Every = true, 100*time.Millisecond
		}, which...)
	}
	want := uint64(7)
	same := func(what string, which ...int) {
		t.Helper()
		hitAt(t, nodes[which[0]], "a", old, 1)
		want++
		var exports [][]byte
		for _, i := range which {
			transporttest.Eventually(t, fmt.Sprintf("%s: node %d has all", what, i+1), func() bool {
				p := aligned(t, nodes[i], fmt.Sprintf("key=a&align=month&from=%d", old.Unix())).Points[0]
				if p.Exact && p.Estimate != want || p.Estimate > want {
					t.Fatalf("%s: node %d answers %s, want %d", what, i+1, p.Bounds, want)
				}
				return p.Exact
			})
			body, missing := export(t, nodes[i], old)
			if missing != "" {
				t.Errorf("%s: node %d says that hits are missing: %s", what, i+1, missing)
			}
			if exports = append(exports, body); !bytes.Equal(body, exports[0]) {
				t.Errorf("%s: node %d exports\n%swant\n%s", what, i+1, body, exports[0])
			}
		}
	}
	up(0, 1, 2)
	same("grown", 0, 1, 2)
	nodetest.Close(t, nodes[1])
	if err := os.Remove(filepath.Join(members.Configs[1].Dir, history.File)); err != nil {
		t.Fatal(err)
	}
	up(1)
	same("history.db was lost", 1, 0, 2)
	if err := os.Remove(filepath.Join(members.Configs[1].Dir, history.File)); err != nil {
		t.Fatal(err)
	}
	same("history.db was removed from a node that runs", 2, 0, 1)
	nodetest.Close(t, nodes[2])
	nodes[2] = nil
	up(3)
	same("n4 in place of n3", 0, 1, 3)
	for _, i := range []int{0, 1, 3} {
		for _, suffix := range []string{".copy", ".fetch"} {
			if _, err := os.Stat(filepath.Join(members.Configs[i].Dir, history.File+suffix)); err == nil {
				t.Errorf("node %d has left its %s", i+1, suffix)
			}
		}
	}
}

// export is the days of history since a moment, and what the answer says is missing.
func export(t *testing.T, n *node.Node, from time.Time) (body []byte, missing string) {
	t.Helper()
	response, err := http.Get(fmt.Sprintf("http://%s/v1/export?from=%d&to=%d", n.Addr(), from.Unix(), from.Unix()+1))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, string(body), err)
	}
	return body, response.Header.Get("Weir-Missing")
}
