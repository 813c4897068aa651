package durable

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// journalOf is what a directory's manifest says.
func journalOf(t *testing.T, dir string) uint64 {
	t.Helper()
	m, _, err := checkpoint.LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m.Journal
}

// refused is why a journal does not open.
func refused(t *testing.T, cfg Config) error {
	t.Helper()
	e, err := engine.New(engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	if _, err = Open(ctx, e, cfg, nil); err == nil {
		t.Fatal("it was opened")
	}
	return err
}

// The files of another journal under this directory's manifest are refused, whatever
// they have.
func TestAnotherJournalIsNotTakenForOnesOwn(t *testing.T) {
	t.Parallel()
	one, two := testConfig(t, t.TempDir()), testConfig(t, t.TempDir())
	for _, cfg := range []Config{one, two} {
		r := start(t, cfg)
		r.hit("a", 1000, 1)
		r.close()
	}
	if journalOf(t, one.Dir) == journalOf(t, two.Dir) || journalOf(t, one.Dir) == 0 {
		t.Fatal("the two journals have no identity of their own")
	}
	for _, dir := range []string{one.Dir, two.Dir} {
		if err := os.Rename(filepath.Join(dir, checkpoint.ServerDir), dir+".moved"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(one.Dir+".moved", filepath.Join(two.Dir, checkpoint.ServerDir)); err != nil {
		t.Fatal(err)
	}
	err := refused(t, two)
	for _, says := range []string{record.JournalText(journalOf(t, one.Dir)), record.JournalText(journalOf(t, two.Dir)), "--data"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
	if err := os.Rename(filepath.Join(two.Dir, checkpoint.ServerDir), filepath.Join(one.Dir, checkpoint.ServerDir)); err != nil {
		t.Fatal(err)
	}
	r := start(t, one)
	r.want("a", 1)
	r.close()
}

// Nodes that make a cluster at the same time agree on one identity.
func TestNodesAgreeOnTheIdentityOfTheirJournal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	agreed := journalOf(t, c.cfgs[0].Dir)
	for _, cfg := range c.cfgs {
		if id := journalOf(t, cfg.Dir); id == 0 || id != agreed {
			t.Errorf("%x, and n1 has %x", id, agreed)
		}
	}
	c.nodes[0].hit("a", 1000, 1)
	c.agree(map[string]uint64{"a": 1})
	js := c.nodes[0].j.server.JetStream()
	for _, name := range []string{stream.FlushStream, stream.SnapshotStream} {
		found, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if has := found.CachedInfo().Config.Metadata; has[stream.MetaJournal] != record.JournalText(agreed) {
			t.Errorf("%s has %v", name, has)
		}
	}
}
