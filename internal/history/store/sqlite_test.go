package store_test

import (
	"path/filepath"
	"testing"

	"github.com/weir-counter/weir/internal/history/store"
)

func openSQLite(t *testing.T) *store.Store {
	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "history.db"))
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	testStore(t, openSQLite)
}
