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
)

// bus carries messages between histories of one test. spoil may change an answer.
type bus struct {
	mu    sync.Mutex
	serve map[string][]func([]byte) []byte
	spoil func(answer []byte) ([]byte, error)
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
	all := b.served(subject)
	if len(all) == 0 {
		return nil, errors.New("nobody answers")
	}
	return b.spoil(all[len(all)-1](data))
}

// A node that begins when the journal is trimmed has what snapshots know, and says so; then it has the rows of another node. Copies
// that are cut or changed on the way change nothing and are tried again.
func TestCopyOfAnotherNode(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	b := &bus{serve: map[string][]func([]byte) []byte{}}
	open := func(name string) (h *history.History, dir string) {
		dir = t.TempDir()
		h, err := history.Open(history.Config{Peers: b, Every: 100 * time.Millisecond}, dir, j, name, retention, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
		return h, dir
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
		switch how := spoil.Load().(string); {
		case answer[0] != '>' || how == "":
		case how == "the link is cut":
			return nil, errors.New(how)
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
	for _, how := range []string{"the link is cut", "the copy differs", ""} {
		spoil.Store(how)
		transporttest.Eventually(t, "the second node says why it lacks hits: "+how, func() bool {
			why, _ := second.Incomplete()
			return how == "" || why != nil && strings.Contains(why.Error(), how)
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
		why, _ := second.Incomplete()
		_, left1 := os.Stat(filepath.Join(dir1, "history.db.copy"))
		_, left2 := os.Stat(filepath.Join(dir2, "history.db.fetch"))
		return why == nil && os.IsNotExist(left1) && os.IsNotExist(left2)
	})

	// The journal is kept for a node that can't write.
	locker, err := sql.Open("sqlite", filepath.Join(dir2, "history.db"))
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
		return first.Needed(false, past) == before+1 && first.Needed(true, past) == before+1
	})
	if _, err := locker.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	catchUp(second)
	transporttest.Eventually(t, "the first node knows", func() bool { return first.Needed(false, 0) == before+2 })
}
