package journal

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir"
)

// damagedCluster is the directories of three nodes that were stopped: snapshots
// in both slots, and some journal after them, with the counts that are right.
func damagedCluster(t *testing.T) (c *cluster, saved []string, want map[string]uint64) {
	t.Helper()
	c = newCluster(t, 3)
	for i := range c.cfgs {
		c.cfgs[i].SnapshotBytes = minSnapshotBytes
	}
	c.start()
	want = map[string]uint64{}
	random := rand.New(rand.NewPCG(4, 4))
	for i := range int64(30) {
		for _, node := range c.nodes {
			for range 100 {
				key := fmt.Sprint("key:", int(random.ExpFloat64()*40))
				node.hit(key, 1_000_000+i, 1)
				want[key]++
				want[weir.AllKeys]++
			}
			node.sync()
		}
		if i == 8 || i == 18 {
			for _, node := range c.nodes {
				if node.j.takesSnapshots() {
					node.j.snapshots.startRound()
					node.j.finishRound(t.Context())
				}
			}
		}
	}
	c.agree(want)
	if os.Getenv("EXP_LIVE") == "" {
		c.stop()
	}
	defer c.stop()
	for _, cfg := range c.cfgs {
		dir := filepath.Join(t.TempDir(), "saved")
		copyDir(t, cfg.Dir, dir)
		saved = append(saved, dir)
	}
	return c, saved, want
}

// stop ends all nodes at once, and leaves their files.
func (c *cluster) stop() {
	done := make(chan struct{})
	for i, node := range c.nodes {
		c.nodes[i] = nil
		go func() {
			if node != nil {
				node.crash()
			}
			done <- struct{}{}
		}()
	}
	for range c.nodes {
		<-done
	}
}

func TestExperiment(t *testing.T) {
	c, saved, want := damagedCluster(t)
	var files []string
	filepath.WalkDir(saved[0], func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, _ := d.Info()
			t.Logf("%s %d", path[len(saved[0]):], info.Size())
			if d.Name() != lockFile && regexp.MustCompile(os.Getenv("EXP_FILTER")).MatchString(path) {
				files = append(files, path[len(saved[0]):])
			}
		}
		return err
	})
	for _, file := range files {
		for _, how := range []string{"flip", "cut", "zero", "gone"} {
			for i, cfg := range c.cfgs {
				copyDir(t, saved[i], cfg.Dir)
			}
			path := c.cfgs[0].Dir + file
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			switch how {
			case "flip":
				if len(data) > 0 {
					data[len(data)/2] ^= 4
				}
			case "cut":
				data = data[:len(data)*2/3]
			case "zero":
				data = nil
			}
			if how == "gone" {
				os.Remove(path)
			} else {
				os.WriteFile(path, data, 0o600)
			}
			what := how + " " + file
			began := time.Now()
			type started struct {
				i   int
				r   *running
				err error
			}
			results := make(chan started, 3)
			for i := range c.nodes {
				go func() {
					r, err := c.open(i)
					results <- started{i, r, err}
				}()
			}
			said := ""
			for range c.nodes {
				s := <-results
				if s.err != nil {
					said += fmt.Sprintf(" n%d refuses: %v;", s.i+1, s.err)
					continue
				}
				c.nodes[s.i] = s.r
			}
			for i, node := range c.nodes {
				if node == nil {
					continue
				}
				for key, n := range want {
					got := node.count(key)
					if got.Lower != n || got.Upper != n {
						said += fmt.Sprintf(" n%d WRONG %s %d want %d;", i+1, key, got.Lower, n)
						break
					}
				}
				s := node.j.Stats()
				if s.Divergence+s.Holes > 0 || len(s.Findings) > 0 {
					said += fmt.Sprintf(" n%d divergence %d holes %d findings %v;", i+1, s.Divergence, s.Holes, s.Findings)
				}
			}
			if c.nodes[0] != nil && c.nodes[1] != nil && c.nodes[2] != nil {
				said += experimentLater(c, want)
			}
			if said == "" {
				said = " ok"
			}
			os.Stdout.WriteString(fmt.Sprintf("RESULT %s: %v:%s\n", strings.ReplaceAll(what, "\n", " "), time.Since(began).Round(100*time.Millisecond), strings.ReplaceAll(said, "\n", " | ")))
			c.stop()
		}
	}
}

func experimentLater(c *cluster, want map[string]uint64) (said string) {
	// n1 leads
	for range 10 {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		for _, st := range []string{flushStream, snapshotStream} {
			_, _ = c.nodes[1].j.server.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+st, []byte(`{"placement":{"preferred":"n1"}}`))
		}
		cancel()
		time.Sleep(300 * time.Millisecond)
		info, err := c.nodes[1].j.server.JetStream().Stream(c.t.Context(), flushStream)
		if err != nil {
			continue
		}
		info2, err := c.nodes[1].j.server.JetStream().Stream(c.t.Context(), snapshotStream)
		if err != nil {
			continue
		}
		if info.CachedInfo().Cluster.Leader == "n1" && info2.CachedInfo().Cluster.Leader == "n1" {
			said = " (n1 leads)"
			break
		}
	}
	c.nodes[2].crash()
	c.nodes[2] = nil
	os.RemoveAll(c.cfgs[2].Dir)
	r, err := c.open(2)
	if err != nil {
		return said + fmt.Sprintf(" EMPTY n3 refuses: %v", err)
	}
	c.nodes[2] = r
	for i, node := range c.nodes {
		for key, n := range want {
			got := node.count(key)
			if got.Lower != n || got.Upper != n {
				said += fmt.Sprintf(" after empty n%d WRONG %s %d want %d;", i+1, key, got.Lower, n)
				break
			}
		}
		s := node.j.Stats()
		if s.Divergence+s.Holes > 0 || len(s.Findings) > 0 {
			said += fmt.Sprintf(" after empty: n%d divergence %d holes %d findings %v;", i+1, s.Divergence, s.Holes, s.Findings)
		}
	}
	return said
}
