package durable

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// Directories that earlier versions wrote, kept as they were: every later version
// must load them, with the counts of fixtureCounts. A release adds its own:
//
//	go test ./internal/durable -run 'TestFixtures$' -write-fixtures VERSION
var writeFixtures = flag.String("write-fixtures", "", "write testdata/directories/VERSION-*.tar.gz, for a release")

const fixtureFolder = "testdata/directories"

// fixtureCounts are the hits of all fixtures. Those of dense are in a pyramid, the key
// "gone" was deleted after 7 hits, "late" came after the snapshots.
var fixtureCounts = map[string]uint64{"a": 3, "dense": 600 * 2, "late": 11, "gone": 0, engine.AllKeys: 3 + 1200 + 11 + 7}

// fillFixture takes the hits of fixtureCounts, through several nodes.
func fillFixture(t *testing.T, nodes []*running) {
	at := func(i int) *running { return nodes[i%len(nodes)] }
	at(0).hit("a", 1_000_000, 3)
	for i := range 600 {
		at(i).hit("dense", 1_000_000+int64(i)*5, 2)
	}
	at(1).hit("gone", 1_000_100, 7)
	at(1).sync()
	at(1).e.Delete("gone")
	at(1).sync()
	if l, err := at(0).e.Limits().LimitIn("n1", limit.WhereLeased, "daily", engine.Limit{N: 5, Per: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	} else if v, err := l.Take("user:1", 2); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}
	if _, _, err := at(0).e.OnceFrom(t.Context(), "", "order-1", 1, func() []byte { return []byte("answer") }); err != nil {
		t.Fatal(err)
	}
	for _, r := range nodes {
		r.sync()
		r.j.checkpoints.StartRound()
		r.j.finishRound(t.Context())
	}
	at(2).hit("late", 1_003_100, 11)
	for _, r := range nodes {
		r.sync()
	}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	if *writeFixtures != "" {
		writeAlone(t, *writeFixtures)
		writeCluster(t, *writeFixtures)
	}
	files, err := filepath.Glob(fixtureFolder + "/*-alone.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			cfg := testConfig(t, t.TempDir())
			unpack(t, path, cfg.Dir)
			for range 2 { // what a start changes, the next one loads
				r := start(t, cfg)
				for key, n := range fixtureCounts {
					r.want(key, n)
				}
				r.close()
			}
		})
	}
	clusters, err := filepath.Glob(fixtureFolder + "/*-cluster.tar.gz")
	if err != nil || len(clusters) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range clusters {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, path, dir)
			c := newCluster(t, 3)
			for i := range c.cfgs {
				c.cfgs[i].Dir = filepath.Join(dir, fmt.Sprint("n", i+1))
			}
			c.start()
			c.agree(fixtureCounts)
			c.nodes[0].hit("a", 1_003_100, 1)
			c.agree(map[string]uint64{"a": fixtureCounts["a"] + 1})
		})
	}
}

func writeAlone(t *testing.T, version string) {
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	fillFixture(t, []*running{r})
	r.crash() // a stop in good order has all in snapshots
	pack(t, cfg.Dir, filepath.Join(fixtureFolder, version+"-alone.tar.gz"))
}

func writeCluster(t *testing.T, version string) {
	dir := t.TempDir()
	c := newCluster(t, 3)
	for i := range c.cfgs {
		c.cfgs[i].Dir = filepath.Join(dir, fmt.Sprint("n", i+1))
	}
	c.start()
	fillFixture(t, c.nodes)
	c.agree(fixtureCounts)
	for _, r := range slices.Backward(c.nodes) {
		r.crash()
	}
	pack(t, dir, filepath.Join(fixtureFolder, version+"-cluster.tar.gz"))
}

func pack(t *testing.T, dir, to string) {
	t.Helper()
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zipped)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), zipped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpack makes the files of a fixture, whose names are this repository's own.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zipped); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(head.Name))
		if head.FileInfo().IsDir() {
			err = os.MkdirAll(to, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
			err = writeUnpacked(to, head.FileInfo().Mode(), r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeUnpacked(to string, mode fs.FileMode, from io.Reader) error {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
