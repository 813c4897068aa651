package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// restored makes a data directory of a backup that a node writes, while hits of url:load go on there until over.
func restored(t *testing.T, n *node.Node, hitting func()) (dir string) {
	t.Helper()
	var load sync.WaitGroup
	over := make(chan struct{})
	load.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				hitting()
			}
		}
	})
	body, err := clientOf(t, n).Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "restored")
	info, err := durable.Restore(t.Context(), body, dir, func(ctx context.Context, file string, j durable.Messages, taken time.Time) error {
		return history.Restored(ctx, file, j, taken)
	})
	close(over)
	load.Wait()
	if err != nil || body.Close() != nil || !info.History {
		t.Fatalf("%+v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 6 {
		t.Errorf("the directory has %v", left)
	}
	return dir
}

// A backup has the history, with the hits that its counts have and no other: those that came while it was taken are in both, or in
// neither. What the windows have forgotten is there. After the restore hits go on in both.
func TestABackupHasTheHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, nil)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	const age = 60 // days, longer than the retention
	want := make([]uint64, age+1)
	for i := range want {
		for k := range uint64(20) {
			hitAt(t, n, "url:home", today.AddDate(0, 0, i-age), 1+k)
			want[i] += 1 + k
		}
	}
	same := func(what string, n *node.Node) {
		t.Helper()
		for _, key := range []string{"url:home", "*"} {
			got := aligned(t, n, fmt.Sprintf("key=%s&align=day&from=%d", key, today.AddDate(0, 0, -age).Unix()))
			for i, p := range got.Points[:age] {
				if !p.Exact || p.Estimate != want[i] {
					t.Errorf("%s, %s on day %d: %s, want %d", what, key, i, p.Bounds, want[i])
				}
			}
		}
		inWindows := count(t, n, "url:load")
		if got := aligned(t, n, fmt.Sprintf("key=url:load&align=day&from=%d", today.AddDate(0, 0, -1).Unix())); got.Points[0].Estimate+got.Points[len(got.Points)-1].Estimate != inWindows {
			t.Errorf("%s: history has %v of the %d hits that came meanwhile", what, got.Points, inWindows)
		}
	}
	same("before", n)
	for range 3 {
		hitAt(t, n, "url:load", time.Now(), 1)
		copied := restored(t, n, func() { hitAt(t, n, "url:load", time.Now(), 1) })
		hitAt(t, n, "url:home", today.AddDate(0, 0, -3), 1000) // after the backup
		again := historical(t, copied, nil)
		same("restored", again)
		hitAt(t, again, "url:home", today.AddDate(0, 0, -5), 1)
		want[age-5]++
		hitAt(t, again, "url:load", time.Now(), 1)
		same("and goes on", again)
		nodetest.Close(t, again, n)
		n = historical(t, copied, nil)
		same("and started again", n)
	}
	if left, err := filepath.Glob(filepath.Join(dir, history.File+".backup*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// One node's backup has the history of a cluster.
func TestABackupOfAClusterHasTheHistory(t *testing.T) {
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	startNodes(t, nodes, members, func(_ int, cfg *node.Config) { cfg.History.On, cfg.History.Every = true, 100*time.Millisecond })
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for i, n := range nodes {
		hitAt(t, n, "a", today.AddDate(0, 0, -60), uint64(1+i))
		hitAt(t, n, "a", today.AddDate(0, 0, -2), uint64(10+i))
	}
	query := fmt.Sprintf("key=a&align=day&from=%d", today.AddDate(0, 0, -60).Unix())
	transporttest.Eventually(t, "history has all", func() bool {
		got := aligned(t, nodes[1], query).Points
		return got[0].Estimate == 6 && got[58].Estimate == 33
	})
	load := 0
	n := historical(t, restored(t, nodes[1], func() { hitAt(t, nodes[load%3], "url:load", time.Now(), 1); load++ }), nil)
	if got := aligned(t, n, query).Points; got[0].Estimate != 6 || got[58].Estimate != 33 {
		t.Errorf("restored: %v, %v", got[0], got[58])
	}
	inWindows := count(t, n, "url:load")
	if got := aligned(t, n, fmt.Sprintf("key=url:load&align=day&from=%d", today.AddDate(0, 0, -1).Unix())).Points; got[0].Estimate+got[len(got)-1].Estimate != inWindows {
		t.Errorf("history has %v of %d", got, inWindows)
	}
	if _, err := os.Stat(filepath.Join(members.Configs[1].Dir, history.File+".backup")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// A node whose place of backups fails leaves them to another node, and says what failed while no other makes them.
func TestBackupsOfAnotherNode(t *testing.T) {
	members := transporttest.New(t, 3, nil)
	nodes, good := make([]*node.Node, 3), t.TempDir()
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	up := func(to string, which ...int) {
		t.Helper()
		startNodes(t, nodes, members, func(_ int, cfg *node.Config) { cfg.Backups.To = "file:" + to + "?every=1s&keep=2" }, which...)
	}
	up(filepath.Join(good, "missing", "place"), 0, 1, 2)
	transporttest.Eventually(t, "a backup fails, which is an alarm", func() bool {
		for _, n := range nodes {
			if stats, err := clientOf(t, n).Stats(t.Context()); err == nil {
				for _, a := range stats.Alarms {
					if a.Code == "backup_old" {
						return true
					}
				}
			}
		}
		return false
	})
	nodetest.Close(t, nodes[2])
	up(good, 2)
	transporttest.Eventually(t, "another node makes a backup, and the alarm ends", func() bool {
		made, err := filepath.Glob(filepath.Join(good, "weir-*.backup"))
		if err != nil || len(made) == 0 {
			return false
		}
		for _, n := range nodes {
			stats, err := clientOf(t, n).Stats(t.Context())
			if err != nil {
				return false
			}
			for _, a := range stats.Alarms {
				if a.Code == "backup_old" {
					return false
				}
			}
		}
		return true
	})
}
