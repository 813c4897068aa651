package history_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/journal/record"
	_ "modernc.org/sqlite"
)

// emptyJournal has no messages.
type emptyJournal struct{}

func (emptyJournal) ID() string                          { return "journal" }
func (emptyJournal) Partitions() int                     { return 16 }
func (emptyJournal) Written() (uint64, time.Time)        { return 0, time.Now() }
func (emptyJournal) Grown(context.Context) (bool, error) { return false, nil }

func (emptyJournal) Bounds(context.Context) (first, last, bytes uint64, err error) {
	return 1, 0, 0, nil
}
func (emptyJournal) Read(context.Context, uint64, uint64, func(uint64, []byte) error) error {
	return nil
}
func (emptyJournal) Get(context.Context, uint64) ([]byte, error) {
	return nil, errors.New("no such message")
}
func (emptyJournal) Requests(context.Context) ([]record.SeenRequest, uint64, error) {
	return nil, 0, nil
}
func (emptyJournal) NewestSnapshots(_ context.Context, f func(int, *record.Snapshot) error) error {
	for partition := range 16 {
		if err := f(partition, nil); err != nil {
			return err
		}
	}
	return nil
}

// Questions that nothing but history can answer wait for a history that was opened a moment ago, and whose tables a
// busy disk has not made yet.
func TestTablesAreWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy, err := sql.Open("sqlite", filepath.Join(dir, history.File))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	conn, err := busy.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	h, err := history.Open(history.Config{}, dir, emptyJournal{}, "n1", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	answered := make(chan error, 2)
	go func() {
		_, err := h.Keys(t.Context(), "a", "", 10)
		answered <- err
	}()
	go func() {
		_, _, err := h.Top(t.Context(), "", 0, 86400, 10)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("answered before there are tables: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}
