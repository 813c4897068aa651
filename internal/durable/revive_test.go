package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// inOwnProcess runs the test that calls it once more, in a process of its own:
// what go test itself writes meanwhile must not fail. It tells whether this is
// that process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const mine = "WEIR_TEST_OWN_PROCESS"
	if os.Getenv(mine) != "" {
		return true
	}
	own := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	own.Env = append(os.Environ(), mine+"=1")
	out, err := own.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// fullDisk makes writing fail as a full disk does, halfway through a record: no
// file of this process may grow beyond a number of bytes, until lift is called or
// the test ends.
func fullDisk(t *testing.T, bytes uint64) (lift func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	full := was
	full.Cur = bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	lift = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
	t.Cleanup(lift)
	return lift
}

// A disk that was full: no hit is said to be on disk that is not, and once there
// is space the journal goes on by itself, with every hit once.
func TestGoesOnAfterFullDisk(t *testing.T) {
	t.Parallel()
	if !inOwnProcess(t) {
		return
	}
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	var hits uint64
	fill := func() {
		for i := range 2000 { // those after a flush that failed are refused
			if r.take(fmt.Sprintf("key:%0100d", i), 1_000_000) {
				hits++
			}
		}
	}
	fill()
	r.sync()
	for range 2 { // it may happen again
		revivals := r.j.Stats().Revivals
		lift := fullDisk(t, 64<<10)
		fill()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := r.j.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("durable on a full disk: %v", err)
		}
		cancel()
		transporttest.Eventually(t, "the journal fails", func() bool { return r.j.Stats().Failing })
		if s := r.j.Stats(); !s.Failing || s.Revivals != revivals {
			t.Errorf("while it was full: %+v", s)
		}
		refusing := slices.DeleteFunc(r.j.Alarms(), func(a api.Alarm) bool { return a.Code == "snapshots_failing" && !a.Refusing }) // a round may have begun
		if len(refusing) != 1 || refusing[0].Code != "journal_failing" || !refusing[0].Refusing {
			t.Errorf("while it was full: %+v", r.j.Alarms())
		}
		if r.take("refused", 1_000_000) {
			t.Error("a hit was taken while none could be kept")
		}
		lift()
		r.sync()
		if r.alarmed("journal_failing") {
			t.Errorf("with space again: %+v", r.j.Alarms())
		}
		transporttest.Eventually(t, "snapshots are stored again", func() bool { return len(r.j.Alarms()) == 0 })
		if s := r.j.Stats(); s.Failing || s.Revivals != revivals+1 {
			t.Errorf("with space again: %+v", s)
		}
	}
	r.want("*", hits)
	fill()
	r.sync()
	r.crash()
	r = start(t, cfg)
	r.want("*", hits)
	if found := r.j.Stats().Findings; len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// A server that is well is let be, and one that does not run is started.
func TestRevivesOnlyWhatIsDown(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.FlushEvery = time.Minute
	r := start(t, cfg)
	for want := range uint64(2) {
		r.j.suspect.Store(true)
		if err := r.j.revive(t.Context()); err != nil { // its goroutine waits
			t.Fatal(err)
		}
		if got := r.j.Stats().Revivals; got != want || r.j.suspect.Load() {
			t.Fatalf("%d revivals, want %d; suspect: %v", got, want, r.j.suspect.Load())
		}
		r.hit("a", 1_000_000, 1)
		r.sync()
		if err := r.j.server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	r.want("a", 2)
}

// A server that lost what it had acknowledged is not gone on with.
func TestDoesNotGoOnWithoutAcknowledged(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.FlushEvery = time.Minute
	r := start(t, cfg)
	r.hit("a", 1_000_000, 1)
	r.sync()
	r.j.flusher.BeginForeign(time.Now(), [][]byte{{1}}) // its goroutine waits
	r.j.flusher.Acknowledged(r.j.flusher.Last() + 1)
	if err := r.j.continues(t.Context()); err == nil || !strings.Contains(err.Error(), "was acknowledged") {
		t.Errorf("got %v", err)
	}
}
