package durable

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

// dataFiles are the files of a data directory but for its lock, with content.
func dataFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == checkpoint.LockFile {
			return err
		}
		data, err := os.ReadFile(path)
		all[path[len(dir):]] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Verify tells what is there, and changes no byte of it.
func TestVerify(t *testing.T) {
	t.Parallel()
	cfg, want := damagedDir(t)
	before := dataFiles(t, cfg.Dir)
	r, err := backup.VerifyDirectory(t.Context(), cfg.Dir)
	if err != nil || !r.Sound() || len(r.Findings) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	hits := uint64(0)
	for _, n := range want {
		hits += n
	}
	if r.Keys != len(want) || r.Hits != hits || r.Partitions != 16 || r.Snapshots != 32 || r.Epoch != 2 || r.Bytes == 0 || r.Messages != r.Last+1-r.First {
		t.Errorf("%d keys with %d hits: %+v", len(want), hits, r)
	}
	for path, content := range dataFiles(t, cfg.Dir) {
		if before[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
}

// Verify and a start are of one mind about damage.
func TestVerifyAgreesWithOpen(t *testing.T) {
	t.Parallel()
	cfg, _ := damagedDir(t)
	r := rand.New(rand.NewPCG(5, 5))
	files := slices.Sorted(maps.Keys(dataFiles(t, cfg.Dir)))
	for i := range 40 {
		damaged := cfg
		damaged.Dir = filepath.Join(t.TempDir(), "copy")
		copyDir(t, cfg.Dir, damaged.Dir)
		what := damageFile(t, r, damaged.Dir+files[i%len(files)])
		report, err := backup.VerifyDirectory(t.Context(), damaged.Dir)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		run, err := tryStart(t, damaged)
		if (err == nil) != report.Sound() {
			t.Errorf("%s: verify says %v, a start %v", what, report.Findings, err)
		}
		if err == nil {
			run.crash()
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	start(t, cfg)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		cfg.Dir:            "in use by process",
		t.TempDir():        "has no manifest",
		file:               "it is a file",
		file + "/not/here": "data directory",
	} {
		if _, err := backup.VerifyDirectory(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
	if _, err := backup.VerifyDirectory(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
