package durable

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// life of one engine and its journal in a test.
type running struct {
	t testing.TB
	e *engine.Engine
	j *Journal
}

func engineConfig() engine.Config {
	return engine.Config{Clock: engine.EventClock, Partitions: 16, Gather: true}
}

// smallEngineConfig is engineConfig with memory that suits the smallest disk.
func smallEngineConfig() engine.Config {
	cfg := engineConfig()
	cfg.Memory, cfg.LimitMemory, cfg.OnceMemory = 4<<20, 256<<10, 128<<10
	return cfg
}

func testConfig(t testing.TB, dir string) Config {
	return Config{Dir: dir, FlushEvery: 5 * time.Millisecond, SnapshotBytes: minSnapshotBytes,
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

// testWriter shows the log of a test that fails.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func start(t testing.TB, cfg Config) *running {
	t.Helper()
	r, err := tryStart(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryStart(t testing.TB, cfg Config) (*running, error) {
	t.Helper()
	return tryStartWith(t, cfg, engineConfig())
}

func tryStartWith(t testing.TB, cfg Config, config engine.Config) (*running, error) {
	t.Helper()
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	j, err := Open(t.Context(), e, cfg, nil)
	if err != nil {
		return nil, err
	}
	r := &running{t, e, j}
	t.Cleanup(r.crash)
	return r, nil
}

// crash ends the journal as kill -9 would: nothing is flushed any more.
func (r *running) crash() {
	r.j.closed.Do(func() {
		r.j.stop(errClosing)
		r.j.running.Wait()
		if err := r.j.release(); err != nil {
			r.t.Error(err)
		}
	})
}

func (r *running) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), transporttest.Patience)
	defer cancel()
	if err := r.j.Close(ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) sync() {
	r.t.Helper()
	if err := r.j.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) hit(key string, at int64, n uint64) {
	r.t.Helper()
	if _, err := r.e.HitAt(time.Unix(at, 0), key, n); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) count(key string) engine.Count {
	r.t.Helper()
	c, err := r.e.Count(key, engine.MaxWindow)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *running) want(key string, n uint64) {
	r.t.Helper()
	if got := r.count(key); got.Lower != n || got.Upper != n {
		r.t.Errorf("%s: %+v, want %d", key, got, n)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	r.hit("a", 1000, 3)
	r.hit("b", 1001, 4)
	r.e.Delete("b")
	r.hit("b", 1002, 5)
	r.close()
	for range 3 {
		r = start(t, cfg)
		r.want("a", 3)
		r.want("b", 5)
		r.want(engine.AllKeys, 12)
		if !r.e.Now().Equal(time.Unix(1002, 0)) {
			t.Errorf("now %v", r.e.Now())
		}
		r.close()
	}
}

// After a crash: what was synced is there once, what was not is there or not.
func TestCrash(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	var synced, sent uint64
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 12 {
		run := start(t, cfg)
		got := run.count("a")
		if got.Lower < synced || got.Upper > sent || !got.Exact() {
			t.Fatalf("round %d: %+v, synced %d, sent %d", round, got, synced, sent)
		}
		synced, sent = got.Lower, got.Lower
		for range r.IntN(3000) {
			run.hit("a", 1_000_000+int64(sent/100), 1)
			run.hit(fmt.Sprint("other:", r.IntN(500)), 1_000_000+int64(sent/100), 1)
			if sent++; r.IntN(200) == 0 {
				run.sync()
				synced = sent
			}
		}
		if round%4 == 3 {
			run.close()
			synced = sent
		} else {
			run.crash()
		}
	}
}

// The same seeded hits with restarts, crashes after a sync, snapshots and trims
// at random points give the same answers as without.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		plain, err := engine.New(engineConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		cfg := testConfig(t, t.TempDir())
		run := start(t, cfg)
		r := rand.New(rand.NewPCG(seed, 9))
		now := int64(1_000_000)
		keys := map[string]bool{engine.AllKeys: true}
		for range 6000 {
			now += r.Int64N(3)
			key, at, n := fmt.Sprint("key:", int(r.ExpFloat64()*30)), now-r.Int64N(100)*r.Int64N(2), 1+r.Uint64N(4)
			keys[key] = true
			run.hit(key, at, n)
			if _, err := plain.HitAt(time.Unix(at, 0), key, n); err != nil {
				t.Fatal(err)
			}
			switch r.IntN(600) {
			case 0:
				run.close()
				run = start(t, cfg)
			case 1:
				run.sync()
				run.crash()
				run = start(t, cfg)
			case 2:
				run.j.checkpoints.StartRound()
			case 3:
				run.e.Delete(key)
				plain.Delete(key)
			case 4:
				run.j.checkpoints.StartRound()
				run.j.finishRound(t.Context())
			}
		}
		for key := range keys {
			for _, w := range []time.Duration{time.Second, time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour, engine.MaxWindow} {
				got, _ := run.e.Count(key, w)
				want, _ := plain.Count(key, w)
				if got != want {
					t.Errorf("seed %d: %s over %v: %+v, want %+v", seed, key, w, got, want)
				}
			}
		}
		if s := run.j.Stats(); len(s.Findings) > 0 {
			t.Errorf("findings: %v", s.Findings)
		}
	}
}

// Snapshots let the journal be trimmed; a start needs only what came after.
func TestTrims(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	for i := range int64(40) {
		for k := range 500 {
			r.hit(fmt.Sprint("key:", k), 1_000_000+i, 1)
		}
		r.sync()
		r.j.checkpoints.StartRound()
		r.j.finishRound(t.Context())
	}
	first, last, _, err := r.j.store.Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first < last/2 {
		t.Errorf("the stream goes from %d to %d: not trimmed", first, last)
	}
	r.close()
	r = start(t, cfg)
	for k := range 500 {
		r.want(fmt.Sprint("key:", k), 40)
	}
}

// Receipts survive a restart, by the journal alone and by a snapshot.
func TestReceiptsSurvive(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	once := func(key string) (string, bool) {
		answer, repeated, err := r.e.OnceFrom(t.Context(), "", key, 7, func() []byte {
			r.hit("a", 1000, 1)
			return []byte("answer to " + key)
		})

		if err != nil {
			t.Fatal(err)
		}
		return string(answer), repeated
	}
	once("one")
	r.close() // with a snapshot
	r = start(t, cfg)
	once("two")
	r.sync()
	r.crash() // without
	r = start(t, cfg)
	for _, key := range []string{"one", "two"} {
		if answer, repeated := once(key); !repeated || answer != "answer to "+key {
			t.Errorf("%s: %q, repeated: %v", key, answer, repeated)
		}
	}
	r.want("a", 2)
}

// A second process is refused with the pid of the first.
func TestLock(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	start(t, cfg)
	_, err := tryStart(t, cfg)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("in use by process ", os.Getpid())) {
		t.Errorf("got %v", err)
	}
}

func TestPermissionsAndForeignFiles(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir()+"/new")
	start(t, cfg).close()
	info, err := os.Stat(cfg.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	other := t.TempDir()
	if err := os.WriteFile(other+"/thesis.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryStart(t, testConfig(t, other)); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("a directory with something else in it: %v", err)
	}
}

// An engine that does not gather is refused, and so are other partitions or another
// retention than those of a cluster: a node alone changes its directory.
func TestRefusesOtherSettings(t *testing.T) {
	t.Parallel()
	refuses := func(cfg Config, names string, change func(*engine.Config)) {
		t.Helper()
		ec := engineConfig()
		change(&ec)
		e, err := engine.New(ec)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if j, err := Open(t.Context(), e, cfg, nil); err == nil {
			(&running{t, e, j}).crash()
			t.Errorf("opened with %+v", ec)
		} else if !strings.Contains(err.Error(), names) {
			t.Errorf("%s is not named: %v", names, err)
		}
	}
	cfg := testConfig(t, t.TempDir())
	start(t, cfg).close()
	refuses(cfg, "Gather", func(c *engine.Config) { c.Gather = false })
	start(t, cfg)

	c := newCluster(t, 2)
	c.start()
	c.stop()
	refuses(c.cfgs[0], "partitions", func(c *engine.Config) { c.Partitions = 32 })
	refuses(c.cfgs[0], "retention", func(c *engine.Config) { c.Retention = time.Hour })
}
