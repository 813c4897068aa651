package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/engine"
)

func (r *running) backup() []byte {
	r.t.Helper()
	var file bytes.Buffer
	if err := r.j.Backup(r.t.Context(), &file); err != nil {
		r.t.Fatal(err)
	}
	return file.Bytes()
}

// restored is a life of what a backup holds.
func restored(t *testing.T, file []byte) *running {
	t.Helper()
	return restoredWith(t, file, engineConfig())
}

func restoredWith(t *testing.T, file []byte, config engine.Config) *running {
	t.Helper()
	cfg := testConfig(t, filepath.Join(t.TempDir(), "restored"))
	if _, err := Restore(t.Context(), bytes.NewReader(file), cfg.Dir, nil); err != nil {
		t.Fatal(err)
	}
	r, err := tryStartWith(t, cfg, config)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.j.Stats(); len(s.Findings) > 0 || s.Unfinished > 0 {
		t.Errorf("what a restored directory begins with: %+v", s)
	}
	return r
}

// A restored engine answers as the one that was backed up, whatever the mix of
// snapshots and journal in the file, and can be backed up itself.
func TestBackup(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		run := start(t, testConfig(t, t.TempDir()))
		r := rand.New(rand.NewPCG(seed, 3))
		for i := range int64(1500) * int64(seed) {
			run.hit(fmt.Sprint("key:", int(r.ExpFloat64()*30)), 1_000_000+i-r.Int64N(100), 1+r.Uint64N(3))
			switch r.IntN(300) {
			case 0:
				run.sync()
			case 1:
				run.j.checkpoints.StartRound()
			case 2:
				run.e.Delete("key:3")
			}
		}
		if _, _, err := run.e.OnceFrom(t.Context(), "", "once", 1, func() []byte { return []byte("answer") }); err != nil {
			t.Fatal(err)
		}
		first := run.backup()
		again := restored(t, restored(t, first).backup())
		for i := range 100 {
			key := fmt.Sprint("key:", i)
			for _, w := range []time.Duration{time.Second, time.Minute, time.Hour, engine.MaxWindow} {
				got, _ := again.e.Count(key, w)
				if want, _ := run.e.Count(key, w); got != want {
					t.Fatalf("seed %d: %s over %v: %+v, want %+v", seed, key, w, got, want)
				}
			}
		}
		if answer, repeated, err := again.e.OnceFrom(t.Context(), "", "once", 1, nil); err != nil || !repeated || string(answer) != "answer" {
			t.Errorf("the receipt: %q, %v, %v", answer, repeated, err)
		}
		info, err := backup.Scan(bytes.NewReader(first))
		if err != nil || info.Bytes != int64(len(first)) || info.Partitions != 16 || info.Origin != run.j.own.Origin {
			t.Errorf("%+v, %v; the file has %d bytes", info, err, len(first))
		}
	}
}

// While hits come in: those before the call are in the backup, and a request
// under an idempotency key is in it as a whole, with its receipt, or not at all.
func TestBackupWhileServing(t *testing.T) {
	t.Parallel()
	run := start(t, testConfig(t, t.TempDir()))
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	const (
		wide     = 40     // keys of one request, in many partitions
		requests = 40_000 // of each writer: an engine takes 100,000 receipts in ten minutes
	)
	for range 2 {
		writers.Go(func() {
			for i := 0; i < requests && ctx.Err() == nil; i++ {
				_, _, err := run.e.OnceFrom(ctx, "", fmt.Sprintf("%p/%d", &i, i), 1, func() []byte {
					for k := range wide {
						run.hitOnceTaken(ctx, fmt.Sprint("wide:", k), 1_000_000+int64(i/100))
					}
					return []byte("ok")
				})

				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if i%500 == 0 {
					run.j.checkpoints.StartRound()
				}
			}
		})
	}
	for range 4 {
		before := run.count("wide:0").Lower
		got := restored(t, run.backup())
		n := got.count("wide:0").Lower
		for k := range wide {
			got.want(fmt.Sprint("wide:", k), n)
		}
		if receipts := len(got.e.Receipts().All()); uint64(receipts) != n || n < before {
			t.Errorf("%d requests with %d receipts, %d of them before the backup", n, receipts, before)
		}
	}
}

// hitOnceTaken hits a key once, again as long as the hit is refused because the disk is slow.
func (r *running) hitOnceTaken(ctx context.Context, key string, at int64) {
	for ctx.Err() == nil {
		if _, err := r.e.HitAt(time.Unix(at, 0), key, 1); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// A flush that is too large for one message is in the file in several sections, and counts as a
// whole: hits that come while the disk is slow make such flushes.
func TestBackupOfAFlushInParts(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.FlushEvery, cfg.SnapshotBytes = time.Minute, 64<<20 // one flush, and no snapshots
	run := start(t, cfg)
	key := func(i int) string { return fmt.Sprintf("%0400d", i) }
	const keys = 12_000
	for i := range keys {
		run.hit(key(i), 1_000_000+int64(i%7), 1+uint64(i%5))
	}
	run.sync()
	if _, last, _, err := run.j.store.Bounds(t.Context()); err != nil || last < 4 {
		t.Fatalf("the flush has %d messages, %v: the test shows nothing", last, err)
	}
	got := restored(t, run.backup())
	wrong := 0
	for i := range keys {
		if c := got.count(key(i)); c.Lower != 1+uint64(i%5) || !c.Exact() {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d keys are wrong", wrong, keys)
	}
}

// Any flipped bit and any cut is refused, and leaves no directory behind.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	run := start(t, testConfig(t, t.TempDir()))
	for i := range int64(40) {
		run.hit(fmt.Sprint("key:", i), 1_000_000, 1)
	}
	run.j.checkpoints.StartRound()
	run.j.finishRound(t.Context())
	run.hit("after", 1_000_001, 1)
	file := run.backup()
	r := rand.New(rand.NewPCG(7, 7))
	empty := t.TempDir()
	for i := range 200 {
		damaged := slices.Clone(file)
		switch i % 4 {
		case 0:
			damaged = damaged[:r.IntN(len(damaged))]
		case 1:
			damaged = append(damaged, 0)
		default:
			bit := r.IntN(8 * len(damaged))
			damaged[bit/8] ^= 1 << (bit % 8)
		}
		dir := empty
		if i%2 == 0 {
			dir = filepath.Join(empty, "new")
		}
		if _, err := Restore(t.Context(), bytes.NewReader(damaged), dir, nil); err == nil {
			t.Fatalf("%d: took it", i)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
			t.Fatalf("%d: left %v, %v", i, left, err)
		}
		if _, err := backup.Scan(bytes.NewReader(damaged)); err == nil {
			t.Fatalf("%d: ScanBackup took it", i)
		}
	}
}

// A restore that is cut off in its source's middle, or by its context, leaves
// nothing either.
func TestRestoreStops(t *testing.T) {
	t.Parallel()
	file := start(t, testConfig(t, t.TempDir())).backup()
	dir := filepath.Join(t.TempDir(), "new")
	broken := errors.New("the disk went away")
	if _, err := Restore(t.Context(), io.MultiReader(bytes.NewReader(file[:40]), failing{broken}), dir, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Restore(ctx, bytes.NewReader(file), dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left the directory: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestRestoreRefusesFilled(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	run := start(t, cfg)
	file := run.backup()
	run.close()
	other := t.TempDir()
	if err := os.WriteFile(other+"/thesis.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{cfg.Dir: "is a data directory already", other: "thesis.txt"} {
		before, _ := os.ReadDir(dir)
		if _, err := Restore(t.Context(), bytes.NewReader(file), dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%d files, there were %d", len(after), len(before))
		}
	}
}

// gate is a file that takes nothing until it is opened.
type gate struct {
	reached func()
	open    chan struct{}
}

func (g gate) Write(b []byte) (int, error) {
	g.reached()
	<-g.open
	return len(b), nil
}

// A backup whose reader is slow holds up neither hits nor Close, and it says why
// it failed.
func TestCloseEndsBackup(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	run := start(t, cfg)
	for i := range int64(2000) { // more than the file's buffer
		run.hit(fmt.Sprintf("%0400d", i), 1_000_000, 1)
	}
	reached := make(chan struct{})
	g := gate{sync.OnceFunc(func() { close(reached) }), make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- run.j.Backup(t.Context(), g) }()
	<-reached
	run.hit("late", 1_000_000, 1)
	run.sync()
	run.close()
	close(g.open)
	if err := <-ended; !errors.Is(err, errClosing) {
		t.Errorf("got %v", err)
	}
	if err := run.j.Backup(t.Context(), io.Discard); !errors.Is(err, errClosing) {
		t.Errorf("after Close: %v", err)
	}
	start(t, cfg).want("late", 1)
}

func TestBackupFails(t *testing.T) {
	t.Parallel()
	run := start(t, testConfig(t, t.TempDir()))
	broken := errors.New("no space left")
	if err := run.j.Backup(t.Context(), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	run.backup() // the first one let go
}
