package store_test

import (
	"testing"

	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/history/store/dbtest"
)

var (
	postgres = dbtest.NewPostgres()
	mariadb  = dbtest.NewMariaDB()
)

func TestMain(m *testing.M) { dbtest.Main(m, postgres, mariadb) }

func TestPostgres(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T) *store.Store { return open(t, postgres.URL(t)) })
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T) *store.Store { return open(t, mariadb.URL(t)) })
}
