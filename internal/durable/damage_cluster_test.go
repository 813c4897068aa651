package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/stream"
)

var clusterDamages = flag.String("cluster-damages", "", "what TestDamageOfOneNode does to a node's files: each, one of its list after the other; else a regular expression of files, damaged in every way; empty: some of its list, at once")

// damagedCluster is the directories of three nodes: snapshots in both slots, and
// some journal after them, with the counts that are right. Of nodes that crashed
// the files are as they were while they ran.
func damagedCluster(t *testing.T, crashed bool) (c *cluster, saved []string, want map[string]uint64) {
	t.Helper()
	c = newCluster(t, 3)
	for i := range c.cfgs {
		c.cfgs[i].SnapshotBytes = minSnapshotBytes
		c.cfgs[i].Logger = transporttest.Logger(t, 12) // damage is logged as an error
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
				want[engine.AllKeys]++
			}
			node.sync()
		}
		if i == 8 || i == 18 {
			for _, node := range c.nodes {
				node.j.checkpoints.StartRound() // of the partitions that are its to take
				node.j.finishRound(t.Context())
			}
		}
	}
	c.agree(want)
	if !crashed {
		c.stop()
	}
	for _, cfg := range c.cfgs {
		dir := filepath.Join(t.TempDir(), "saved")
		copyDir(t, cfg.Dir, dir)
		saved = append(saved, dir)
	}
	c.stop()
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

// ways are what a disk does to a file.
var ways = map[string]func(path string, data []byte) error{
	"a bit flipped": func(path string, data []byte) error {
		if len(data) > 0 {
			data[len(data)/2] ^= 4
		}
		return os.WriteFile(path, data, 0o600)
	},
	"cut":   func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)*2/3], 0o600) },
	"empty": func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
	"gone":  func(path string, _ []byte) error { return os.Remove(path) },
}

// damage is one that is done to n1 while it does not run.
type damage struct {
	pattern string // of files; the first one
	way     string
	outcome string // of the start of n1: what a finding, or the error that it ends with, names; "": it may come up
}

const (
	journalBlocks  = "jetstream/jetstream/$G/streams/" + stream.FlushStream + "/msgs/*.blk"
	snapshotBlocks = "jetstream/jetstream/$G/streams/" + stream.SnapshotStream + "/msgs/*.blk"
	groupFiles     = "jetstream/jetstream/$SYS/_js_/"
)

// One of three nodes that were all stopped comes back with damaged files, and may
// become the leader of all. It names the damage and takes what it lost from the others,
// or refuses to start; and no node's count is wrong, nor that of one that starts
// with an empty directory while n1 leads.
func TestDamageOfOneNode(t *testing.T) {
	for crashed, damages := range map[bool][]damage{
		false: {
			{journalBlocks, "a bit flipped", stream.FlushStream},
			{snapshotBlocks, "gone", stream.SnapshotStream},
			{groupFiles + "_meta_/snapshots/snap.*", "a bit flipped", "snap."},
			{journalBlocks, "empty", stream.FlushStream},
			{"jetstream/node.json", "cut", "node.json"},
			{"manifest", "a bit flipped", "manifest"},
		},
		true: {
			{journalBlocks, "cut", ""}, // as by the crash: the log of its group has the rest
			{journalBlocks, "a bit flipped", stream.FlushStream},
		},
	} {
		t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
			t.Parallel()
			c, saved, want := damagedCluster(t, crashed)
			switch {
			case *clusterDamages == "" && crashed:
				c.damaged(saved, want, damages[0])
				return
			case *clusterDamages == "":
				c.damaged(saved, want, damages[:3]...)
				return
			case *clusterDamages != "each":
				damages = everyDamage(t, saved[0])
			}
			for _, d := range damages {
				c.damaged(saved, want, d)
			}
		})
	}
}

// everyDamage is each way for each file that -cluster-damages names.
func everyDamage(t *testing.T, dir string) (all []damage) {
	wanted := regexp.MustCompile(*clusterDamages)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != checkpoint.LockFile && wanted.MatchString(path) {
			for way := range ways {
				all = append(all, damage{pattern: path[len(dir)+1:], way: way})
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// damaged starts nodes of which n1 has damages.
func (c *cluster) damaged(saved []string, want map[string]uint64, damages ...damage) {
	t := c.t
	for i, cfg := range c.cfgs {
		copyDir(t, saved[i], cfg.Dir)
		asides, err := transport.Quarantined(filepath.Join(cfg.Dir, checkpoint.ServerDir))
		for _, aside := range asides {
			err = errors.Join(err, os.RemoveAll(aside))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var done []string
	for _, d := range damages {
		done = append(done, c.damageFile(d)+": "+d.way)
	}
	what := strings.Join(done, "; ")
	began := time.Now()
	errs := c.tryStart()
	outcome := ""
	if errs[0] != nil {
		outcome = errs[0].Error()
	} else {
		for _, found := range c.nodes[0].j.Stats().Findings {
			outcome += found.String() + "\n"
			if !found.Harmless {
				t.Errorf("%s: hits are lost: %v", what, found)
			}
		}
	}
	t.Logf("%s: %v: %s", what, time.Since(began).Round(100*time.Millisecond), outcome)
	if errs[1] != nil || errs[2] != nil {
		t.Fatalf("%s: the others are harmed: %v, %v", what, errs[1], errs[2])
	}
	for _, d := range damages {
		if !strings.Contains(outcome, d.outcome) {
			t.Errorf("%s: nobody names %s: %q", what, d.outcome, outcome)
		}
	}
	c.agree(want)
	if c.nodes[0] != nil {
		c.leads(0)
		c.nodes[2].crash()
		c.nodes[2] = nil
		if err := os.RemoveAll(c.cfgs[2].Dir); err != nil {
			t.Fatal(err)
		}
		c.start()
		c.agree(want)
	}
	for i, node := range c.nodes[1:] {
		if s := node.j.Stats(); s.Divergence+s.Holes != 0 {
			t.Errorf("%s: node %d: %+v", what, i+2, s)
		}
	}
	c.stop()
}

// damageFile damages a file of n1.
func (c *cluster) damageFile(d damage) (path string) {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.cfgs[0].Dir, d.pattern))
	if err != nil || len(paths) == 0 {
		c.t.Fatalf("%s: no such file: %v", d.pattern, err)
	}
	data, err := os.ReadFile(paths[0])
	if err == nil {
		err = ways[d.way](paths[0], data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return paths[0]
}

// tryStart starts all nodes at once, and says which did not.
func (c *cluster) tryStart() (errs [3]error) {
	var opened [3]*running
	done := make(chan struct{})
	for i := range c.nodes {
		go func() {
			opened[i], errs[i] = c.open(i)
			done <- struct{}{}
		}()
	}
	for range c.nodes {
		<-done
	}
	for i, r := range opened {
		if r != nil {
			c.nodes[i] = r
			c.t.Cleanup(r.crash)
		}
	}
	return errs
}

// leads makes a node the leader of both streams, once its replicas are current:
// to ask earlier would only disturb what makes them so.
func (c *cluster) leads(i int) {
	c.t.Helper()
	js, name := c.nodes[i].j.server.JetStream(), c.cfgs[i].Join.Node
	for _, kept := range []string{stream.FlushStream, stream.SnapshotStream} {
		seen := ""
		defer func() {
			if c.t.Failed() {
				c.t.Log(seen)
			}
		}()
		transporttest.Eventually(c.t, name+" leads "+kept, func() bool {
			ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
			defer cancel()
			stream, err := js.Stream(ctx, kept)
			if err != nil {
				return false
			}
			is := stream.CachedInfo().Cluster
			seen = fmt.Sprintf("%s: leader %s", kept, is.Leader)
			for _, replica := range is.Replicas {
				seen += fmt.Sprintf(", %+v", *replica)
				if replica.Name == name && replica.Current && replica.Lag == 0 {
					_, _ = js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+kept, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, name))
				}
			}
			return is.Leader == name
		})
	}
}

// A bit flips on the disk of the journal's leader while it runs, and a node that
// starts empty has to get everything from it. Started again, the leader finds the
// damage.
func TestDamageWhileTheLeaderRuns(t *testing.T) {
	t.Parallel()
	c, _, want := damagedCluster(t, true)
	c.start()
	c.agree(want)
	c.leads(0)
	c.damageFile(damage{pattern: journalBlocks, way: "a bit flipped"})
	c.nodes[2].crash()
	c.nodes[2] = nil
	if err := os.RemoveAll(c.cfgs[2].Dir); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.agree(want)
	c.nodes[0].crash()
	c.nodes[0] = nil
	c.start()
	c.agree(want)
	for i, node := range c.nodes {
		for _, found := range node.j.Stats().Findings {
			t.Logf("node %d: %v", i+1, found)
			if !found.Harmless {
				t.Errorf("node %d: hits are lost: %v", i+1, found)
			}
		}
	}
	if len(c.nodes[0].j.Stats().Findings) == 0 {
		t.Error("the leader did not find the damage")
	}
}

// Verify of one node's directory tells all that the cluster counts, changes no
// byte, and finds what is damaged without the others.
func TestVerifyOfOneNode(t *testing.T) {
	t.Parallel()
	c, saved, want := damagedCluster(t, false)
	before := dataFiles(t, saved[0])
	r, err := backup.VerifyDirectory(t.Context(), saved[0])
	if err != nil || len(r.Findings) > 0 || r.Node != "n1" || r.Hits != want[engine.AllKeys] {
		t.Fatalf("want %d hits: %+v, %v", want[engine.AllKeys], r, err)
	}
	for path, content := range dataFiles(t, saved[0]) {
		if before[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
	for _, d := range []damage{
		{journalBlocks, "a bit flipped", stream.FlushStream},
		{journalBlocks, "empty", stream.FlushStream},
		{snapshotBlocks, "cut", stream.SnapshotStream},
		{groupFiles + "_meta_/snapshots/snap.*", "a bit flipped", "snap."},
		{"manifest", "a bit flipped", "manifest"},
	} {
		copyDir(t, saved[0], c.cfgs[0].Dir)
		path := c.damageFile(d)
		r, err := backup.VerifyDirectory(t.Context(), c.cfgs[0].Dir)
		if err != nil || r.Sound() || !strings.Contains(fmt.Sprint(r.Findings), d.outcome) {
			t.Errorf("%s: %s: %v, %v", path, d.way, r.Findings, err)
		}
	}
}
