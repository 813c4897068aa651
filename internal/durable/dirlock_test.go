package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

// opening opens a directory and returns the error.
func opening(t *testing.T, dir string) error {
	t.Helper()
	_, err := tryStart(t, testConfig(t, dir))
	return err
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// The lock file is gone, and the directory is still one process's.
func TestLockWithoutItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := start(t, testConfig(t, dir))
	wantError(t, opening(t, dir), "is in use by process")
	if err := os.Remove(filepath.Join(dir, checkpoint.LockFile)); err != nil {
		t.Fatal(err)
	}
	wantError(t, opening(t, dir), "is in use by process")
	_, err := backup.VerifyDirectory(t.Context(), dir)
	wantError(t, err, "is in use by process")
	run.hit("a", 1_000_000, 1)
	run.sync()
}

func TestLinks(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("not Weir's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{checkpoint.LockFile, checkpoint.ManifestFile, checkpoint.ManifestFile + ".new", checkpoint.WatermarkFile, checkpoint.ServerDir, checkpoint.SpaceFile} {
		dir := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		wantError(t, opening(t, dir), name+" is a symbolic link")
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "not Weir's" {
		t.Errorf("a link was written through: %q, %v", data, err)
	}
	// The directory itself may be named by a link, which counts once.
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	run := start(t, testConfig(t, link))
	wantError(t, opening(t, dir), "is in use by process")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	run.hit("a", 1_000_000, 1)
	run.sync()
	run.j.checkpoints.StartRound()
	run.j.finishRound(t.Context())
}

// killedReader stands for the moment at which a restore is killed: what is on disk then
// is copied.
type killedReader struct {
	*bytes.Reader
	at   int
	kill func()
}

func (k *killedReader) Read(p []byte) (int, error) {
	if done := int(k.Size()) - k.Len(); done >= k.at && k.kill != nil {
		k.kill()
		k.kill = nil
	}
	return k.Reader.Read(p)
}

// A restore that was killed, at whatever moment, leaves a directory that does not begin
// empty without a word, and the next restore does all of it.
func TestRestoreThatWasKilled(t *testing.T) {
	t.Parallel()
	run := start(t, testConfig(t, t.TempDir()))
	run.hit("a", 1_000_000, 7)
	file := run.backup()
	for _, at := range []int{0, len(file) / 2} {
		dir, left := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "left")
		_, err := Restore(t.Context(), &killedReader{bytes.NewReader(file), at, func() {
			if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
				t.Error(err)
			}
		}}, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, opening(t, left), "run weir restore again")
		for _, name := range []string{checkpoint.ServerDir, checkpoint.WatermarkFile, checkpoint.HistoryFile} { // as if it was killed while it moved them
			if err := os.MkdirAll(filepath.Join(left, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		wantError(t, opening(t, left), "run weir restore again")
		cfg := testConfig(t, left)
		if _, err := Restore(t.Context(), bytes.NewReader(file), left, nil); err != nil {
			t.Fatal(err)
		}
		start(t, cfg).want("a", 7)
	}
}
