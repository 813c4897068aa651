package admit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/policy"
)

// watched is a Watch on a real file, in a bubble of virtual time.
type watched struct {
	t      *testing.T
	live   *Live
	path   string
	reload chan struct{}
	cancel func()

	mu      sync.Mutex
	reports []string // by report, each once
}

func watch(t *testing.T, text string) *watched {
	w := &watched{t: t, path: filepath.Join(t.TempDir(), "limits.yaml"), reload: make(chan struct{})}
	write(t, w.path, text)
	set, err := policy.Load(w.path)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, text)
	w.live = r.Live
	if err := w.live.Replace(set); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go w.live.Watch(ctx, w.path, w.reload, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.reports = append(w.reports, "in use")
			return
		}
		w.reports = append(w.reports, strings.ReplaceAll(err.Error(), w.path, "FILE"))
	})
	return w
}

// expect is what was reported since the last time, after some seconds, and how many policies
// there are.
func (w *watched) expect(seconds int, policies int, want ...string) {
	w.t.Helper()
	time.Sleep(time.Duration(seconds)*time.Second + time.Millisecond) // virtual
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reports) != len(want) {
		w.t.Fatalf("reported %q, want %q", w.reports, want)
	}
	for i := range want {
		if !strings.HasPrefix(w.reports[i], want[i]) {
			w.t.Fatalf("reported %q, want %q", w.reports[i], want[i])
		}
	}
	w.reports = nil
	if n := len(w.live.Set().Policies()); n != policies {
		w.t.Fatalf("%d policies in use, want %d", n, policies)
	}
}

const second = "  - {name: second, keys: \"*\", limit: 1, per: 1s}\n"

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, good)
		w.expect(5, 1)

		write(t, w.path, good+second)
		w.expect(1, 2, "in use")
		w.expect(60, 2)

		write(t, w.path, good+"    brust: 3\n")
		w.expect(60, 2, "FILE:6: brust: unknown field, did you mean burst?")
		write(t, w.path, good+"    burts: 3\n")
		w.expect(60, 2, "FILE:6: burts: unknown field")
		write(t, w.path, "")
		w.expect(60, 2, "FILE: limits: there are none")

		// Fixed to what is in use: that is reported too.
		write(t, w.path, good+second)
		w.expect(60, 2, "in use")

		// An editor writes another file, and renames it.
		write(t, w.path+"~", good)
		if err := os.Rename(w.path+"~", w.path); err != nil {
			t.Fatal(err)
		}
		w.expect(60, 1, "in use")

		// Touched, and written again with the same text.
		now := time.Now()
		if err := os.Chtimes(w.path, now, now); err != nil {
			t.Fatal(err)
		}
		write(t, w.path, good)
		w.expect(60, 1)

		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		w.expect(60, 1, "FILE: the file is gone: the policies in use stay")
		if err := os.Mkdir(w.path, 0o700); err != nil {
			t.Fatal(err)
		}
		w.expect(60, 1, "FILE: not a regular file")
		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		write(t, w.path, good+second)
		w.expect(60, 2, "in use")
		w.cancel()
	})
}

func TestWatchReloadsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, good)
		w.reload <- struct{}{}
		w.expect(0, 1, "in use")
		write(t, w.path, good+second)
		w.reload <- struct{}{}
		w.expect(0, 2, "in use")
		write(t, w.path, "limits: 5")
		w.reload <- struct{}{}
		w.expect(30, 2, "FILE:1: limits:")
		w.reload <- struct{}{}
		w.expect(30, 2, "FILE:1: limits:") // asked again, reported again
		close(w.reload)
		w.expect(30, 2)
		write(t, w.path, good)
		w.expect(1, 1, "in use")
		w.cancel()
	})
}

// A file that was changed between Load and Watch is not overlooked.
func TestWatchBeginsWithWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, good)
		if err := w.live.Replace(nil); err != nil {
			t.Fatal(err)
		}
		w.expect(0, 0)
		w.reload <- struct{}{}
		w.expect(0, 1, "in use")
		w.cancel()
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, good)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			r.Watch(ctx, "nowhere", nil, func(err error) {
				if !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
			})
			close(ended)
		}()
		time.Sleep(3 * time.Second) // virtual
		cancel()
		<-ended
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
