package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/limit"
)

// filledAlone makes a directory of a node alone, with hits, a receipt and a used limit.
func filledAlone(t *testing.T, cfg Config) map[string]uint64 {
	t.Helper()
	cfg.Join = cfg.Join.Alone()
	r := startWith(t, engine.Config{Partitions: 16, Gather: true}, cfg)
	want := map[string]uint64{}
	now := time.Now().Unix()
	for i := range int64(300) {
		r.hit("dense", now-600+2*i, 2)
		want["dense"] += 2
		want[engine.AllKeys] += 2
	}
	l, err := r.e.Limits().LimitIn("n1", limit.WhereLeased, "daily", engine.Limit{N: 5, Per: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := l.Take("user:1", 3); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}
	if _, _, err := r.e.OnceFrom(t.Context(), "", "order-1", 1, func() []byte { return []byte("answer") }); err != nil {
		t.Fatal(err)
	}
	r.sync()
	r.j.checkpoints.StartRound()
	r.j.finishRound(t.Context())
	r.hit("late", now, 7)
	want["late"] += 7
	want[engine.AllKeys] += 7
	r.sync()
	r.crash()
	return want
}

// wantUsed wants the receipt and the used limit of filledAlone.
func wantUsed(t *testing.T, r *running) {
	t.Helper()
	answer, repeated, err := r.e.OnceFrom(t.Context(), "", "order-1", 1, func() []byte { return []byte("counted again") })
	if err != nil || !repeated || string(answer) != "answer" {
		t.Errorf("the receipt: %q, %v, %v", answer, repeated, err)
	}
	l, err := r.e.Limits().LimitIn("n1", limit.WhereLeased, "daily", engine.Limit{N: 5, Per: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := l.Take("user:1", 3); err != nil || v.Allowed {
		t.Errorf("3 more of 5 after 3: %+v, %v", v, err)
	}
}

// wallCluster is newCluster with engines that go by the wall clock, as a server's do.
func wallCluster(t *testing.T, nodes int) *cluster {
	c := newCluster(t, nodes)
	c.engine = engine.Config{Partitions: 16, Gather: true}
	return c
}

// The directory of a node alone becomes the first node of a cluster; the cluster's becomes
// one alone again.
func TestOneToThreeToOne(t *testing.T) {
	t.Parallel()
	c := wallCluster(t, 3)
	want := filledAlone(t, c.cfgs[0])
	c.start()
	c.agree(want)
	for _, node := range c.nodes {
		wantUsed(t, node)
	}
	for _, name := range []string{backup.CarriedFile, backup.BeforeDir} {
		if _, err := os.Lstat(filepath.Join(c.cfgs[0].Dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	hit := func(i int, key string) {
		c.nodes[i].hit(key, time.Now().Unix(), 1)
		want[key]++
		want[engine.AllKeys]++
	}
	hit(1, "late")
	hit(2, "new")
	c.agree(want)
	for _, i := range []int{2, 1, 0} {
		c.nodes[i].close()
		c.nodes[i] = nil
	}
	single := c.cfgs[0]
	single.Join = single.Join.Alone()
	if err := refused(t, single); !strings.Contains(err.Error(), "only one of --peers") {
		t.Errorf("%v", err)
	}
	single.LeaveCluster = true
	list, aside := folderOf(t, single.Dir, "KV_"+backup.MergesBucket), filepath.Join(t.TempDir(), "list")
	if err := os.Rename(list, aside); err != nil { // of five nodes, others may keep it
		t.Fatal(err)
	}
	if err := refused(t, single); !strings.Contains(err.Error(), backup.MergesBucket) || !strings.Contains(err.Error(), "weir backup") {
		t.Errorf("without the list of merged backups: %v", err)
	}
	if err := os.Rename(aside, list); err != nil {
		t.Fatal(err)
	}
	r := startWith(t, c.engine, single)
	r.wantAll(want)
	wantUsed(t, r)
	r.hit("new", time.Now().Unix(), 1)
	want["new"]++
	r.close()
	r = startWith(t, c.engine, single)
	r.wantAll(map[string]uint64{"new": want["new"]})
	r.close()
}

// movedAlone makes a directory of a node alone that has counted a topic.
func movedAlone(t *testing.T, cfg Config, topic replication.RequestID) {
	t.Helper()
	cfg.Join = cfg.Join.Alone()
	r := startWith(t, engine.Config{Partitions: 16, Gather: true}, cfg)
	r.e.Receipts().Advance(topic, func(*replication.RequestRecorder) replication.Move {
		r.hit("topic", time.Now().Unix(), 40)
		return replication.Move{To: replication.Position{Offset: 40}}
	})
	r.sync()
	r.crash()
}

// Where a directory that becomes a cluster has counted topics all nodes know before one of them may read, also while its hits are not merged.
func TestTopicOfAGrowth(t *testing.T) {
	t.Parallel()
	c, topic := wallCluster(t, 3), replication.RequestID{7}
	movedAlone(t, c.cfgs[0], topic)
	merge := make(chan struct{})
	c.cfgs[0].Join.Waiting = func(what string) {
		if strings.Contains(what, "former single node") {
			<-merge
		}
	}
	began := make(chan error, 3)
	for i := range c.nodes {
		go func() {
			r, err := c.open(i)
			if c.nodes[i] = r; err == nil {
				t.Cleanup(r.crash)
			}
			began <- err
		}()
	}
	for left := 3; left > 0; left-- {
		if left == 1 { // the one that merges
			for _, r := range c.nodes[1:] {
				transporttest.Eventually(t, "topics may be read", func() bool { return r.j.MayBegin() == nil })
				if at, _ := r.j.Position(topic); at.Offset != 40 || r.count("topic").Lower != 0 {
					t.Errorf("a node begins at %+v before the hits are merged", at)
				}
			}
			close(merge)
		}
		if err := <-began; err != nil {
			t.Fatal(err)
		}
	}
	c.agree(map[string]uint64{"topic": 40})
}

// A directory that joins after others began to read its topic is refused: its hits would count twice.
func TestTopicThatOthersBegan(t *testing.T) {
	t.Parallel()
	c, topic := wallCluster(t, 3), replication.RequestID{7}
	c.start()
	c.nodes[1].e.Receipts().Advance(topic, func(*replication.RequestRecorder) replication.Move {
		return replication.Move{To: replication.Position{Offset: 5}}
	})
	c.nodes[1].sync()
	c.nodes[0].close()
	c.nodes[0] = nil
	c.cfgs[0].Dir = t.TempDir()
	movedAlone(t, c.cfgs[0], topic)
	for range 2 {
		if _, err := c.open(0); err == nil || !strings.Contains(err.Error(), "node n2 read a topic") {
			t.Errorf("%v", err)
		}
	}
}

// folderOf finds a folder of that name.
func folderOf(t *testing.T, dir, name string) (path string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == name {
			path = at
		}
		return err
	}); err != nil || path == "" {
		t.Fatalf("no folder %s in the directory: %v", name, err)
	}
	return path
}

// A directory whose node did not stop last, while others went on, is not all there is.
func TestADirectoryThatIsNotCurrentDoesNotLeave(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	c.nodes[0].hit("a", 1000, 1)
	c.agree(map[string]uint64{"a": 1})
	c.nodes[0].close()
	c.nodes[0] = nil
	c.nodes[1].hit("a", 1000, 1)
	c.nodes[1].sync()
	c.nodes[2].crash()
	c.nodes[1].crash()
	single := c.cfgs[0]
	single.Join, single.LeaveCluster = single.Join.Alone(), true
	if err := refused(t, single); !strings.Contains(err.Error(), "did not say that it stops") || !strings.Contains(err.Error(), "--accept-damage") {
		t.Fatalf("%v", err)
	}
	single.AcceptDamage = true
	r := start(t, single)
	r.want("a", 1)
	r.close()
}

// conversion is what Open makes of a directory that becomes another, at its beginning.
func conversion(cfg Config, e *engine.Engine, m checkpoint.Manifest) *backup.Conversion {
	return cfg.WithDefaults().carry(e).Convert(m)
}

// Each place where a conversion can be cut off is one that a start goes on from.
func TestAGrowthThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	for _, cut := range []struct {
		name string
		at   func(c *backup.Conversion) error
	}{
		{"backup written", func(c *backup.Conversion) error { return c.Write(t.Context(), false) }},
		{"files aside", func(c *backup.Conversion) error { return errors.Join(c.Write(t.Context(), false), c.SetAside()) }},
		{"new manifest", func(c *backup.Conversion) error {
			return errors.Join(c.Write(t.Context(), false), c.SetAside(), c.Begin(checkpoint.NewManifest(c.Engine.Config())))
		}},
	} {
		t.Run(cut.name, func(t *testing.T) {
			c := wallCluster(t, 2)
			want := filledAlone(t, c.cfgs[0])
			m, _, err := checkpoint.LoadManifest(c.cfgs[0].Dir)
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.New(c.engine)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := cut.at(conversion(c.cfgs[0], e, m)); err != nil {
				t.Fatal(err)
			}
			c.start()
			c.agree(want)
			wantUsed(t, c.nodes[1])
		})
	}
}

// The same of a node alone whose settings change.
func TestAChangeOfSettingsThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	to := engine.Config{Partitions: 64, Gather: true, Retention: 90 * 24 * time.Hour}
	steps := []func(c *backup.Conversion) error{
		func(c *backup.Conversion) error { return c.Write(t.Context(), false) },
		func(c *backup.Conversion) error { return c.SetAside() },
		func(c *backup.Conversion) error {
			return os.Mkdir(filepath.Join(c.Dir, checkpoint.RestoreStage), 0o700)
		},
		func(c *backup.Conversion) error { // moved here but for the manifest
			m, err := os.ReadFile(filepath.Join(c.Dir, checkpoint.ManifestFile))
			return errors.Join(err, c.Restage(t.Context()), os.WriteFile(filepath.Join(c.Dir, checkpoint.ManifestFile), m, 0o600))
		},
		func(c *backup.Conversion) error { return errors.Join(c.SetAside(), c.Restage(t.Context())) },
	}
	for last := range steps {
		cfg := testConfig(t, t.TempDir())
		want := filledAlone(t, cfg)
		m, _, err := checkpoint.LoadManifest(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(to)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		c := conversion(cfg, e, m)
		for _, step := range steps[:last+1] {
			if err := step(c); err != nil {
				t.Fatal(last, err)
			}
		}
		r := startWith(t, to, cfg)
		r.wantAll(want)
		wantUsed(t, r)
		r.close()
		for _, name := range []string{backup.CarriedFile, backup.BeforeDir, checkpoint.RestoreStage} {
			if _, err := os.Lstat(filepath.Join(cfg.Dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%d: %s is left: %v", last, name, err)
			}
		}
	}
}

// Of two directories that had hits, the cluster grows from one. The node of the other is
// refused, and comes with an empty directory, as the error says: a new cluster needs all nodes.
func TestASecondDirectoryWithHitsIsRefused(t *testing.T) {
	t.Parallel()
	c := wallCluster(t, 3)
	filledAlone(t, c.cfgs[0])
	filledAlone(t, c.cfgs[1])
	var starting sync.WaitGroup
	var refused atomic.Int32
	for i := range c.nodes {
		starting.Go(func() {
			r, err := c.open(i)
			if err != nil && strings.Contains(err.Error(), "weir restore") && refused.Add(1) == 1 {
				c.cfgs[i].Dir = t.TempDir()
				r, err = c.open(i)
			}
			if err != nil {
				t.Errorf("n%d: %v", i+1, err)
				return
			}
			t.Cleanup(r.crash)
		})
	}
	starting.Wait()
	if refused.Load() != 1 {
		t.Errorf("%d directories are refused, want 1", refused.Load())
	}
}

// Retention and partitions change at a restart of a node alone.
func TestSettingsChangeAtARestart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	filledAlone(t, cfg)
	cfg.ShrinkRetention = true
	for _, eng := range []engine.Config{
		{Partitions: 64, Gather: true},
		{Partitions: 4, Gather: true, Retention: 90 * 24 * time.Hour},
		{Partitions: 16, Gather: true, Retention: time.Hour},
	} {
		r := startWith(t, eng, cfg)
		for key, n := range map[string]uint64{"dense": 600, "late": 7, engine.AllKeys: 607} {
			if got, err := r.e.Count(key, 30*time.Minute); err != nil || got.Lower != n || got.Upper != n {
				t.Errorf("%+v: %s: %+v, %v", eng, key, got, err)
			}
		}
		wantUsed(t, r)
		r.close()
	}
	long := engine.Config{Partitions: 16, Gather: true, Retention: 5 * time.Minute}
	r := startWith(t, long, cfg)
	if got, err := r.e.Count("late", time.Minute*5); err != nil || got.Lower != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	r.close()
}

// A shorter retention by a slip is refused, and costs no hits: alone, on the way into a cluster, and after a change of settings that was
// cut off.
func TestAShorterRetentionIsRefused(t *testing.T) {
	t.Parallel()
	c := wallCluster(t, 1)
	cfg := c.cfgs[0]
	filledAlone(t, cfg)
	single := cfg
	single.Join = single.Join.Alone()
	refuse := func(what string, cfg Config) {
		t.Helper()
		e, err := engine.New(engine.Config{Partitions: 64, Gather: true, Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err = Open(t.Context(), e, cfg, nil); err == nil {
			t.Fatalf("%s: it was opened", what)
		}
		var wrong *engine.Error
		if !errors.As(err, &wrong) || wrong.Field != "Retention" || !strings.Contains(err.Error(), "all hits older than 1h would be dropped") || !strings.Contains(err.Error(), "--shrink-retention") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuse("alone", single)
	refuse("into a cluster", cfg)
	eng := engine.Config{Partitions: 4, Gather: true}
	e, err := engine.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, _, err := checkpoint.LoadManifest(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	step := conversion(single, e, m)
	if err := errors.Join(step.Write(t.Context(), false), step.SetAside()); err != nil {
		t.Fatal(err)
	}
	refuse("cut off", single)
	r := startWith(t, eng, single)
	defer r.close()
	for key, n := range map[string]uint64{"dense": 600, "late": 7} {
		if got, err := r.e.Count(key, 30*time.Minute); err != nil || got.Lower != n || got.Upper != n {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
}
