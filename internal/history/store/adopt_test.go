package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// endsOnceLarge is a context that ends once a file is larger than a number of bytes.
type endsOnceLarge struct {
	context.Context
	path  string
	bytes int64
}

func (c *endsOnceLarge) Err() error {
	if is, err := os.Stat(c.path); err == nil && is.Size() > c.bytes {
		return context.Canceled
	}
	return nil
}

// A copy that fails half-way changes nothing, and leaves no log with the size of the copy on a disk that may be full.
func TestAdoptThatFailsLeavesNoLog(t *testing.T) {
	t.Parallel()
	open := func(bytes int) (*Store, *Lease) {
		s, err := Open(Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "history.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, err := s.Claim(t.Context(), "j", "n1", 0, time.Minute, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), &l, &Batch{Rows: []Row{{Key: "a", Slot: 1_700_000_000 / 3600 * 3600, N: 1}}, Position: []byte{1}, Message: 1, UpTo: 1, AsOf: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.writes().ExecContext(t.Context(), "CREATE TABLE filler AS SELECT zeroblob(?) AS bytes", bytes); err != nil {
			t.Fatal(err)
		}
		return s, &l
	}
	const bytes = 3 * pagesAtOnce * sqlitePage
	from, _ := open(bytes)
	path := filepath.Join(t.TempDir(), "copy")
	if err := from.CopyTo(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	own, l := open(10)
	if _, err := own.Adopt(&endsOnceLarge{t.Context(), own.File() + "-wal", bytes / 6}, l, path); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if log, err := os.Stat(own.File() + "-wal"); err == nil && log.Size() > bytes/6 {
		t.Errorf("the log has %d bytes, and the copy %d", log.Size(), bytes)
	}
	var filler int
	if err := own.writes().QueryRowContext(t.Context(), "SELECT length(bytes) FROM filler").Scan(&filler); err != nil || filler != 10 {
		t.Error(filler, err)
	}
	if _, err := own.Adopt(t.Context(), l, path); err != nil {
		t.Error(err)
	}
}
