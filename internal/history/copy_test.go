package history_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/journal/record"
)

// bus carries messages between histories of one test. spoil may change an answer.
type bus struct {
	mu    sync.Mutex
	serve map[string][]func([]byte) []byte
	spoil func(answer []byte) ([]byte, error)

	requests atomic.Int64
}

func (b *bus) Serve(subject string, f func([]byte) []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve[subject] = append(b.serve[subject], f)
	return nil
}

func (b *bus) served(subject string) []func([]byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.serve[subject])
}

func (b *bus) Publish(subject string, data []byte) error {
	for _, f := range b.served(subject) {
		f(data)
	}
	return nil
}

func (b *bus) Request(_ context.Context, subject string, data []byte) ([]byte, error) {
	b.requests.Add(1)
	all := b.served(subject)
	if len(all) == 0 {
		return nil, errors.New("nobody answers")
	}
	return b.spoil(all[len(all)-1](data))
}

func openHistory(t *testing.T, j *journal, name, dir string, cfg history.Config) *history.History {
	t.Helper()
	cfg.Every = 100 * time.Millisecond
	h, err := history.Open(cfg, dir, j, name, retention, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// A node that begins when the journal is trimmed has what snapshots know, and says so; then it has the rows of another node. Copies
// that are cut or changed on the way change nothing and are tried again.
func TestCopyOfAnotherNode(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	b := &bus{serve: map[string][]func([]byte) []byte{}}
	open := func(name string) (h *history.History, dir string) {
		dir = t.TempDir()
		return openHistory(t, j, name, dir, history.Config{Peers: b}), dir
	}
	now := time.Now()
	old := now.Unix() - int64(retention/time.Second)*3/4
	bounds := []int64{old - old%86400, old - old%86400 + 86400}
	total := func(h *history.History) engine.Count {
		t.Helper()
		totals, _, err := h.Totals(t.Context(), "a", bounds)
		if err != nil {
			t.Fatal(err)
		}
		return totals[0]
	}
	catchUp := func(h *history.History) {
		t.Helper()
		if err := h.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, dir1 := open("n1")
	j.hit(t, "a", old, 3)
	j.hit(t, "a", now.Unix(), 1)
	j.flush(true)
	catchUp(first)
	j.trim()
	var spoil atomic.Value
	spoil.Store("the link is cut")
	b.spoil = func(answer []byte) ([]byte, error) {
		switch fault := spoil.Load().(string); {
		case answer[0] != '>' || fault == "":
		case fault == "the link is cut":
			return nil, errors.New(fault)
		default:
			answer[len(answer)/2] ^= 1
		}
		return answer, nil
	}
	second, dir2 := open("n2")
	catchUp(second)
	missing, err := second.Missing(t.Context(), time.Unix(0, 0), now)
	if err != nil || missing == "" {
		t.Errorf("%q, %v", missing, err)
	}
	j.hit(t, "b", now.Unix(), 1)
	j.flush(false)
	for _, fault := range []string{"the link is cut", "checksum", ""} {
		spoil.Store(fault)
		transporttest.Eventually(t, "the second node says why it lacks hits: "+fault, func() bool {
			why := second.Incomplete()
			return fault == "" || why != nil && strings.Contains(why.Error(), fault)
		})
	}
	transporttest.Eventually(t, "the second node has all", func() bool {
		missing, err := second.Missing(t.Context(), time.Unix(0, 0), now)
		return err == nil && missing == ""
	})
	catchUp(second)
	if got := total(second); got != total(first) || !got.Exact() || got.Lower != 3 {
		t.Errorf("%+v and %+v", got, total(first))
	}
	transporttest.Eventually(t, "no copy is left", func() bool {
		why := second.Incomplete()
		_, left1 := os.Stat(filepath.Join(dir1, "history.db.copy"))
		_, left2 := os.Stat(filepath.Join(dir2, "history.db.fetch"))
		return why == nil && os.IsNotExist(left1) && os.IsNotExist(left2)
	})

	// The journal is kept for a node that can't write.
	locker, err := sql.Open("sqlite", "file:"+filepath.Join(dir2, "history.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	locker.SetMaxOpenConns(1)
	if _, err := locker.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	before := second.Status().Message
	j.hit(t, "b", now.Unix(), 1)
	j.flush(false)
	catchUp(first)
	transporttest.Eventually(t, "the journal is kept for the second node", func() bool {
		past := time.Now().Add(time.Hour).UnixMilli()
		return first.Needed(false, past) == 1 && first.Needed(true, past) == before+1
	})
	if _, err := locker.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	catchUp(second)
	transporttest.Eventually(t, "the first node knows", func() bool { return first.Needed(true, time.Now().Add(time.Hour).UnixMilli()) == before+2 })
}

// A node that begins with snapshots within the retention after a backup was restored has the rows of another node too: that the
// restored hits are not known by the hour there is no reason to go without all that is older.
func TestCopyAfterABackupWasRestored(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	b := &bus{serve: map[string][]func([]byte) []byte{}, spoil: func(answer []byte) ([]byte, error) { return answer, nil }}
	first := openHistory(t, j, "n1", t.TempDir(), history.Config{Peers: b})
	e := record.NewEncoder(record.Incarnation{Origin: 7, Epoch: 1}, j.Partitions())
	e.Restored, e.Leaving = true, true
	e.Begin(time.Now())
	e.AddRestored(0, record.KindEvicted, []byte{1, 1, 1}, 1)
	j.messages = append(j.messages, e.End(nil)...)
	j.hit(t, "a", time.Now().Unix(), 1)
	j.flush(true)
	if err := first.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.trim()
	second := openHistory(t, j, "n2", t.TempDir(), history.Config{Peers: b})
	transporttest.Eventually(t, "the second node lacks as much as the first", func() bool {
		theirs, err := first.Missing(t.Context(), time.Unix(0, 0), time.Now())
		ours, failed := second.Missing(t.Context(), time.Unix(0, 0), time.Now())
		return err == nil && failed == nil && theirs != "" && ours == theirs
	})
}

// A file that does not fit --history-disk is not asked for: its owner would write a copy in vain, again and again.
func TestCopyThatDoesNotFitIsNotAskedFor(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	b := &bus{serve: map[string][]func([]byte) []byte{}, spoil: func(answer []byte) ([]byte, error) { return answer, nil }}
	first := openHistory(t, j, "n1", t.TempDir(), history.Config{Peers: b})
	j.hit(t, "a", j.now.Unix(), 1)
	j.flush(true)
	if err := first.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.trim()
	second := openHistory(t, j, "n2", t.TempDir(), history.Config{Peers: b, MaxBytes: 4096})
	transporttest.Eventually(t, "the second node says that the file does not fit", func() bool {
		why := second.Incomplete()
		return why != nil && strings.Contains(why.Error(), "raise --history-disk")
	})
	if n := b.requests.Load(); n != 0 {
		t.Errorf("the other node was asked %d times", n)
	}
}

// The journal is kept for the histories of other nodes by a node that has none, and by one that has started a moment ago.
func TestNeededOfANodeWithoutHistory(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.hit(t, "a", j.now.Unix(), 1)
	j.flush(false)
	b := &bus{serve: map[string][]func([]byte) []byte{}}
	others, err := history.Watch(b)
	if err != nil {
		t.Fatal(err)
	}
	if slow, haste, past := others.Needed(false, 0), others.Needed(true, 0), others.Needed(true, 1); slow != 1 || haste != 0 || past != 1 {
		t.Errorf("before any node has published its state: %d, with haste %d and %d", slow, haste, past)
	}
	for name, cfg := range map[string]history.Config{"file": {Peers: b}, "database": {Peers: b, URL: postgres.URL(t)}} {
		h := openHistory(t, j, name, t.TempDir(), cfg)
		transporttest.Eventually(t, "it is known what the history in a "+name+" needs", func() bool {
			return h.Status().Message == 1 && others.Needed(false, 0) == 1 && others.Needed(true, time.Now().Add(time.Hour).UnixMilli()) == 2
		})
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
