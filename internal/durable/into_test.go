package durable

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// restoreInto restores a backup into a journal that is in use.
func (r *running) restoreInto(file []byte, mode api.RestoreMode) (done api.Restored) {
	r.t.Helper()
	transporttest.Eventually(r.t, "a backup is restored", func() (ok bool) {
		var err error
		if done, err = r.j.Restore(r.t.Context(), bytes.NewReader(file), mode); err != nil && !errors.Is(err, backup.ErrRestoring) { // a replica may not know yet that another node has done
			r.t.Fatal(err)
		}
		return err == nil
	})
	return done
}

// other is a journal of its own with some hits, of sparse and dense keys, evicted to none,
// and its backup, whose newer hits are in flushes.
func other(t *testing.T, cfg engine.Config) (file []byte, want map[string]uint64) {
	t.Helper()
	r := startWith(t, cfg, testConfig(t, t.TempDir()))
	want = map[string]uint64{}
	hit := func(key string, at int64, n uint64) {
		r.hit(key, at, n)
		want[key] += n
		want[engine.AllKeys] += n
	}
	for i := range int64(400) {
		hit("dense", 1_000_000+3*i, 2)
		hit(fmt.Sprint("k", i%40), 1_000_000+i, 1)
	}
	r.sync()
	r.j.checkpoints.StartRound()
	r.j.finishRound(t.Context())
	hit("late", 1_001_000, 4)
	r.e.Delete("k7")
	want["k7"] = 0
	r.sync()
	file = r.backup()
	r.close()
	return file, want
}

func startWith(t *testing.T, eng engine.Config, cfg Config) *running {
	t.Helper()
	e, err := engine.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Open(t.Context(), e, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t, e, j}
	t.Cleanup(r.crash)
	return r
}

func (r *running) wantAll(want map[string]uint64) {
	r.t.Helper()
	for key, n := range want {
		if got, err := r.e.Count(key, time.Hour); err != nil || got.Lower != n || got.Upper != n {
			r.t.Errorf("%s: %+v, want %d, %v", key, got, n, err)
		}
	}
}

func plus(a, b map[string]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for _, m := range []map[string]uint64{a, b} {
		for key, n := range m {
			sum[key] += n
		}
	}
	return sum
}

// A backup that is merged into a journal in use adds its hits once, however often it is
// merged, and they are there after restarts, from the journal and from snapshots.
func TestMergeCountsOnce(t *testing.T) {
	t.Parallel()
	for _, e := range []engine.Config{
		engineConfig(),
		{Clock: engine.EventClock, Partitions: 4, Gather: true},
		{Clock: engine.EventClock, Partitions: 64, Gather: true, Retention: 90 * 24 * time.Hour},
		{Clock: engine.EventClock, Partitions: 16, Gather: true, Retention: 2 * 24 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%d partitions, %v", e.Partitions, e.Retention), func(t *testing.T) {
			file, theirs := other(t, engineConfig())
			cfg := testConfig(t, t.TempDir())
			r := startWith(t, e, cfg)
			mine := map[string]uint64{"late": 1, "mine": 2, engine.AllKeys: 3}
			r.hit("late", 1_000_500, 1)
			r.hit("mine", 1_000_500, 2)
			want := plus(mine, theirs)
			if done := r.restoreInto(file, api.Merge); done.Again || done.Keys == 0 {
				t.Errorf("%+v", done)
			}
			r.wantAll(want)
			if done := r.restoreInto(file, api.Merge); !done.Again {
				t.Errorf("%+v", done)
			}
			r.wantAll(want)
			r.sync()
			r.crash()
			r = startWith(t, e, cfg)
			r.wantAll(want)
			if done := r.restoreInto(file, api.Merge); !done.Again {
				t.Errorf("%+v", done)
			}
			r.close()
			r = startWith(t, e, cfg)
			r.wantAll(want)
			if _, err := r.j.Restore(t.Context(), bytes.NewReader(r.backup()), api.Merge); !errors.Is(err, backup.ErrCountedTwice) {
				t.Errorf("its own backup: %v", err)
			}
			r.wantAll(want)
			r.close()
		})
	}
}

// Another backup of the journal that was merged has most of the same hits.
func TestASecondBackupOfTheSameJournalIsRefused(t *testing.T) {
	t.Parallel()
	source := start(t, testConfig(t, t.TempDir()))
	source.hit("a", 1000, 1)
	first := source.backup()
	source.hit("a", 1001, 1)
	second := source.backup()
	r := start(t, testConfig(t, t.TempDir()))
	r.restoreInto(first, api.Merge)
	_, err := r.j.Restore(t.Context(), bytes.NewReader(second), api.Merge)
	if !errors.Is(err, backup.ErrCountedTwice) || !strings.Contains(err.Error(), "mode=replace") {
		t.Errorf("%v", err)
	}
	r.want("a", 1)
	r.restoreInto(second, api.Replace)
	r.want("a", 2)
	source.close()
	r.close()
}

// A backup with hits of a topic that is counted here too is not merged; into a journal that has not begun with the topic it is, and again.
func TestMergeOfATopic(t *testing.T) {
	t.Parallel()
	read := func(r *running, id byte, n uint64) {
		r.e.Receipts().Advance(replication.RequestID{id}, func(*replication.RequestRecorder) replication.Move {
			r.hit("topic", 1000, n)
			return replication.Move{To: replication.Position{Offset: n}}
		})
		r.sync()
	}
	source := start(t, testConfig(t, t.TempDir()))
	read(source, 7, 40)
	file := source.backup()
	source.close()
	r := start(t, testConfig(t, t.TempDir()))
	read(r, 7, 5)
	_, err := r.j.Restore(t.Context(), bytes.NewReader(file), api.Merge)
	if !errors.Is(err, backup.ErrCountedTwice) || !strings.Contains(err.Error(), "topic") {
		t.Errorf("%v", err)
	}
	r.want("topic", 5)
	r.close()
	r = start(t, testConfig(t, t.TempDir()))
	read(r, 8, 1)
	for range 2 {
		r.restoreInto(file, api.Merge)
		r.want("topic", 41)
	}
	r.close()
}

func TestReplaceMakesTheCountsThoseOfTheBackup(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	r.hit("mine", 1_000_500, 2)
	r.hit("k7", 1_000_500, 2)
	for range 2 {
		r.restoreInto(file, api.Replace)
		r.want("mine", 0)
		r.wantAll(theirs)
	}
	r.hit("late", 1_001_001, 1)
	r.sync()
	r.crash()
	r = start(t, cfg)
	r.want("mine", 0)
	r.want("late", theirs["late"]+1)
	r.want(engine.AllKeys, theirs[engine.AllKeys]+1)
	r.close()
}

// What replaced all hits is not merged on top of itself, and what it took away is merged
// when it is asked for again.
func TestMergesBesideAReplacement(t *testing.T) {
	t.Parallel()
	first, firsts := other(t, engineConfig())
	second, seconds := other(t, engineConfig())
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	r.restoreInto(first, api.Replace)
	if done := r.restoreInto(first, api.Merge); !done.Again {
		t.Errorf("merged on top of itself: %+v", done)
	}
	r.wantAll(firsts)
	r.restoreInto(second, api.Merge)
	r.wantAll(plus(firsts, seconds))
	r.restoreInto(first, api.Replace)
	r.wantAll(firsts)
	for again := range 2 {
		if done := r.restoreInto(second, api.Merge); done.Again != (again > 0) {
			t.Errorf("attempt %d: %+v", again, done)
		}
		r.wantAll(plus(firsts, seconds))
	}
	r.sync()
	r.crash()
	r = start(t, cfg)
	if done := r.restoreInto(second, api.Merge); !done.Again {
		t.Errorf("%+v", done)
	}
	r.wantAll(plus(firsts, seconds))
	r.close()
}

// A merge that was cut off anywhere goes on when it is asked for again.
func TestAMergeThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	for _, stopAfter := range []int{2, 8, 15} {
		cfg := testConfig(t, t.TempDir())
		r := start(t, cfg)
		r.j.restores.FlushBytes = 1000
		s, err := backup.NewSpool(t.Context(), bytes.NewReader(file), cfg.Dir+"/"+backup.SpoolFile, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		id := s.ID(r.e.Config(), 0)
		cut := r.j.restores.NewWriter(id)
		errCut, contents := errors.New("cut off"), 0
		err = s.Each(t.Context(), func(from *engine.Engine, c replication.Content) error {
			if err := cut.Content(t.Context(), from, c); err != nil {
				return err
			}
			if contents++; contents > stopAfter {
				return errCut
			}
			return nil
		}, func([][]byte, []replication.Request) error { return nil })
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		r.sync()
		r.crash()
		r = start(t, cfg)
		r.j.restores.FlushBytes = 1000
		if stopAfter > 8 && r.count(engine.AllKeys).Lower == 0 {
			t.Error("nothing of it was there")
		}
		r.restoreInto(file, api.Merge)
		r.wantAll(theirs)
		r.close()
	}
}

func TestADamagedBackupChangesNothing(t *testing.T) {
	t.Parallel()
	file, _ := other(t, engineConfig())
	r := start(t, testConfig(t, t.TempDir()))
	r.hit("mine", 1000, 1)
	for _, mode := range []api.RestoreMode{api.Merge, api.Replace} {
		for _, spoiled := range [][]byte{file[:len(file)-1], append(bytes.Clone(file), 1), append(append(bytes.Clone(file[:len(file)/2]), file[len(file)/2]^1), file[len(file)/2+1:]...)} {
			if _, err := r.j.Restore(t.Context(), bytes.NewReader(spoiled), mode); err == nil {
				t.Error("a damaged backup was restored")
			}
		}
	}
	r.want("mine", 1)
	r.want(engine.AllKeys, 1)
	r.close()
}

// All nodes of a cluster count what is merged into one, also one that starts later.
func TestMergeIntoACluster(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	c := newCluster(t, 3)
	c.start()
	c.nodes[0].hit("late", 1_001_000, 1)
	c.nodes[1].hit("mine", 1_001_000, 5)
	mine := map[string]uint64{"late": 1, "mine": 5, engine.AllKeys: 6}
	c.agree(mine)
	c.nodes[2].restoreInto(file, api.Merge)
	c.agree(plus(mine, theirs))
	if done := c.nodes[1].restoreInto(file, api.Merge); !done.Again {
		t.Errorf("%+v", done)
	}
	for _, node := range c.nodes {
		transporttest.Eventually(t, "no node is late", func() bool {
			_, late := node.j.LateOrigins()
			return len(late) == 0
		})
		if list := node.j.Origins(); len(list) != 3 {
			t.Errorf("%+v", list)
		}
	}
	c.nodes[0].crash()
	c.nodes[0] = nil
	c.nodes[1].hit("mine", 1_001_001, 1)
	c.start()
	c.agree(plus(plus(mine, theirs), map[string]uint64{"mine": 1, engine.AllKeys: 1}))
	c.nodes[0].restoreInto(file, api.Replace)
	c.agree(plus(map[string]uint64{"mine": 0}, theirs))
	for i, node := range c.nodes {
		for _, found := range node.j.found {
			t.Errorf("n%d: %s", i+1, found)
		}
		if n := node.j.stats.divergences.Load(); n > 0 {
			t.Errorf("n%d: %d divergences", i+1, n)
		}
	}
}
