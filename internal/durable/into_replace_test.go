package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) says(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

const undone = "interrupted and undone"

var errCut = errors.New("cut off")

// beginReplace begins to restore a backup in place of all hits, and is cut off after so many partitions, as by a crash.
func (r *running) beginReplace(file []byte, partitions int) {
	r.t.Helper()
	ctx := r.t.Context()
	r.j.restores.FlushBytes = 100
	s, err := backup.NewSpool(ctx, bytes.NewReader(file), r.j.cfg.Dir+"/"+backup.SpoolFile, 1<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	cut, written := r.j.restores.NewReplacement(record.NewJournalID()), 0
	err = s.Each(ctx, func(from *engine.Engine, c replication.Content) error {
		if written++; written > partitions {
			return errCut
		}
		return cut.Content(ctx, from, c)
	}, func([][]byte, []replication.Request) error { return nil })
	if !errors.Is(err, errCut) {
		r.t.Fatal(err)
	}
}

// While a backup that is to replace all hits is written, all counts are as before; a crash leaves them so, and the next
// start says that the restore was undone.
func TestAReplacementThatIsCutOffIsUndone(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	for _, partitions := range []int{1, 5, 15} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			cfg, log := testConfig(t, t.TempDir()), &logged{}
			cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
			r := start(t, cfg)
			mine := map[string]uint64{"late": 1, "mine": 2, "k7": 5, engine.AllKeys: 8}
			for key, n := range mine {
				if key != engine.AllKeys {
					r.hit(key, 1_000_500, n)
				}
			}
			r.sync()
			r.beginReplace(file, partitions)
			r.wantAll(mine)
			r.hit("mine", 1_000_501, 1)
			mine["mine"]++
			mine[engine.AllKeys]++
			r.sync()
			r.crash()
			r = start(t, cfg)
			r.wantAll(mine)
			transporttest.Eventually(t, "it says so", func() bool { return log.says(undone) })
			r.j.checkpoints.StartRound()
			r.j.finishRound(t.Context())
			r.hit("mine", 1_000_502, 1)
			mine["mine"]++
			mine[engine.AllKeys]++
			r.close()
			r = start(t, cfg)
			r.wantAll(mine)
			r.restoreInto(file, api.Replace)
			r.wantAll(theirs)
			r.sync()
			r.crash()
			r = start(t, cfg)
			r.wantAll(theirs)
			r.close()
		})
	}
}

// Answers are of before a replacement or of after it, also about all keys together.
func TestAReplacementSwitchesAtOnce(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	r := start(t, testConfig(t, t.TempDir()))
	r.j.restores.FlushBytes = 100
	r.hit("mine", 1_000_500, 2)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	was := map[string]uint64{"mine": 2, "dense": 0, engine.AllKeys: 2}
	for key, before := range was {
		reading.Go(func() {
			for ctx.Err() == nil {
				if got := r.count(key); got.Lower != got.Upper || got.Lower != before && got.Lower != theirs[key] {
					t.Errorf("%s: %+v, want %d or %d", key, got, before, theirs[key])
					return
				}
			}
		})
	}
	for range 3 {
		r.restoreInto(file, api.Replace)
		r.wantAll(theirs)
	}
	stop()
	reading.Wait()
	r.close()
}

// A node of a cluster that crashes while it replaces all hits leaves all counts as they were, exact, on all nodes; and the others undo it, be
// the node back or not.
func TestAReplacementThatIsCutOffInACluster(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	c := newCluster(t, 3)
	c.start()
	c.nodes[0].hit("mine", 1_000_500, 2)
	c.nodes[1].hit("late", 1_000_500, 3)
	mine := map[string]uint64{"mine": 2, "late": 3, engine.AllKeys: 5}
	c.agree(mine)
	c.nodes[2].beginReplace(file, 7)
	c.agree(mine)
	c.nodes[0].sync() // what comes after it in the journal
	for _, node := range c.nodes {
		for _, o := range node.j.Origins() {
			if record.IsBackupName(o.Node) {
				t.Errorf("%+v", o)
			}
		}
	}
	c.nodes[2].crash()
	c.nodes[2] = nil
	transporttest.Eventually(t, "the others undo it", func() bool {
		return len(c.nodes[0].j.replica.Undecided()) == 0 && len(c.nodes[1].j.replica.Undecided()) == 0
	})
	c.nodes[0].j.checkpoints.StartRound()
	c.nodes[1].j.checkpoints.StartRound()
	c.nodes[1].hit("late", 1_000_501, 1)
	mine["late"]++
	mine[engine.AllKeys]++
	c.start()
	c.agree(mine)
	for range 2 {
		c.nodes[2].restoreInto(file, api.Replace)
		c.agree(theirs)
	}
	for i, node := range c.nodes {
		transporttest.Eventually(t, "nobody is late", func() bool {
			_, late := node.j.LateOrigins()
			return len(late) == 0
		})
		for _, found := range node.j.found {
			t.Errorf("n%d: %s", i+1, found)
		}
		if n := node.j.stats.divergences.Load(); n > 0 {
			t.Errorf("n%d: %d divergences", i+1, n)
		}
	}
}

// Snapshots are taken while a node of a cluster replaces all hits, and a node that starts from them has the replacement as the others.
func TestSnapshotsWhileAllIsReplaced(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	c := newCluster(t, 3)
	c.start()
	c.nodes[0].hit("mine", 1_000_500, 2)
	ctx := t.Context()
	node := c.nodes[1]
	node.j.restores.FlushBytes = 100
	s, err := backup.NewSpool(ctx, bytes.NewReader(file), node.j.cfg.Dir+"/"+backup.SpoolFile, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	_, free, err := node.j.restores.Claims.Claim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w, written := node.j.restores.NewReplacement(record.NewJournalID()), 0
	if err := s.Each(ctx, func(from *engine.Engine, c0 replication.Content) error {
		if written++; written == 8 {
			for range 2 {
				for _, node := range c.nodes {
					rounds := node.j.checkpoints.Rounds()
					node.j.checkpoints.StartRound()
					if node.j.checkpoints.InRound() {
						transporttest.Eventually(t, "a round ends", func() bool { node.sync(); return node.j.checkpoints.Rounds() > rounds })
					}
				}
			}
			c.nodes[2].crash()
			c.nodes[2] = nil
			c.start()
		}
		return w.Content(ctx, from, c0)
	}, func([][]byte, []replication.Request) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c.agree(map[string]uint64{"mine": 2, "dense": 0})
	if err := w.End(ctx); err != nil {
		t.Fatal(err)
	}
	free()
	c.agree(theirs)
	c.nodes[0].crash()
	c.nodes[0] = nil
	c.start()
	c.agree(theirs)
	for i, node := range c.nodes {
		for _, found := range node.j.found {
			t.Errorf("n%d: %s", i+1, found)
		}
	}
}
