package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

// wantGone asserts that a journal says of nothing that it is durable, and says why.
func (r *running) wantGone() {
	r.t.Helper()
	select {
	case <-r.j.Failed():
	case <-time.After(transporttest.Patience):
		r.t.Fatal("the journal did not fail")
	}
	if err := r.j.Err(); !errors.Is(err, checkpoint.ErrGone) {
		r.t.Errorf("it failed for %v", err)
	}
	if err := r.j.Sync(r.t.Context()); !errors.Is(err, checkpoint.ErrGone) {
		r.t.Errorf("durable: %v", err)
	}
	if r.take("refused", 1_000_000) {
		r.t.Error("a hit was taken")
	}
	alarms := r.j.Alarms()
	if len(alarms) == 0 || alarms[0].Code != "journal_failing" || !alarms[0].Refusing {
		r.t.Errorf("alarms %+v", alarms)
	}
}

// harms are what makes the files of a data directory be gone, each by itself.
var harms = map[string]func(dir string) error{
	"renamed":   func(dir string) error { return os.Rename(dir, dir+".gone") },
	"removed":   transporttest.RemoveAll,
	"no server": func(dir string) error { return transporttest.RemoveAll(filepath.Join(dir, checkpoint.ServerDir)) },
	"no contents": func(dir string) error {
		return transporttest.RemoveAll(filepath.Join(dir, checkpoint.ServerDir, "jetstream", "$G"))
	},
	"replaced": func(dir string) error {
		if err := os.Rename(dir, dir+".gone"); err != nil {
			return err
		}
		return os.CopyFS(dir, os.DirFS(dir+".gone"))
	},
}

// Nothing is durable in a directory that is not there, whoever asks first.
func TestFilesGone(t *testing.T) {
	t.Parallel()
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, testConfig(t, filepath.Join(t.TempDir(), "data")))
			r.hit("a", 1_000_000, 1)
			r.sync()
			if err := harm(r.j.cfg.Dir); err != nil {
				t.Fatal(err)
			}
			r.take("a", 1_000_001)
			if err := r.j.Sync(t.Context()); !errors.Is(err, checkpoint.ErrGone) {
				t.Errorf("durable: %v", err)
			}
			r.wantGone()
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			if err := r.j.Close(ctx); !errors.Is(err, checkpoint.ErrGone) {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

// A journal finds out though it has nothing to write.
func TestFilesGoneWhileIdle(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"))
	cfg.FlushEvery = time.Minute
	r := start(t, cfg)
	if err := transporttest.RemoveAll(r.j.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	r.wantGone()
}

// A node of a cluster whose files are gone ends, and says why; what it took is with the others.
// One that starts with an empty directory takes all from them.
func TestFilesOfANodeGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for i := range c.cfgs {
		c.cfgs[i].Dir = filepath.Join(t.TempDir(), "data")
	}
	c.start()
	want := map[string]uint64{}
	for i, manner := range []string{"removed", "no server"} { // one node has all that was ever written
		r := c.nodes[i]
		for _, node := range c.nodes {
			node.hit("a", 1_000_000, 1)
			want["a"]++
		}
		c.agree(want)
		if err := harms[manner](r.j.cfg.Dir); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.j.Failed():
		case <-time.After(transporttest.Patience):
			t.Fatalf("%s: the node goes on", manner)
		}
		if err := r.j.Err(); !errors.Is(err, checkpoint.ErrGone) {
			t.Errorf("%s: it failed for %v", manner, err)
		}
		if alarms := r.j.Alarms(); len(alarms) == 0 || alarms[0].Code != "journal_failing" || !alarms[0].Refusing {
			t.Errorf("%s: alarms %+v", manner, alarms)
		}
		ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
		if err := r.j.Close(ctx); err != nil && !errors.Is(err, checkpoint.ErrGone) || ctx.Err() != nil {
			t.Errorf("%s: closed: %v", manner, err)
		}
		cancel()
		c.nodes[i] = nil
		c.agree(want)
		if err := transporttest.RemoveAll(r.j.cfg.Dir); err != nil {
			t.Fatal(err)
		}
		c.start()
		c.agree(want)
		for _, node := range c.nodes {
			transporttest.Eventually(t, manner+": all replicas are current", func() bool { return node.j.server.Settled(t.Context()) == nil })
		}
	}
}

// A node ends when the journal has begun anew without what it has applied, and not while a new leader applies its log.
func TestJournalBegunAnew(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t, filepath.Join(t.TempDir(), "data")))
	now := time.Now()
	for _, last := range []uint64{9, 9, 10, 9} {
		r.j.checkReach(now, 10, last)
		now = now.Add(shortMost - time.Second)
	}
	if err := r.j.Err(); err != nil {
		t.Errorf("it failed for %v", err)
	}
	r.j.checkReach(now.Add(2*time.Second), 10, 9)
	if err := r.j.Err(); err == nil || !strings.Contains(err.Error(), "ends at message 9") {
		t.Errorf("it failed for %v", err)
	}
}
