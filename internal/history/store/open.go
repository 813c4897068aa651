// Package store keeps exact totals per key and slot of time, and per day, in SQLite, Postgres, or MariaDB and MySQL. docs/history.md
// describes the tables, which are public.
//
// Invariants:
//
//   - Rows and their position in the journal change in one transaction (Commit). So a batch of the journal is in the rows exactly
//     once, whatever is killed when.
//   - A transaction counts only under the newest lease of its journal: a writer that was overtaken changes nothing (ErrFenced).
//   - Each row has an origin, which is one journal, or one filling of it. No two writers ever touch a row, and reads add up.
//   - A row says by how much it may be too low (doubt, mostly 0), and a gap which time may lack hits.
//
// It knows SQL and no journal: history.Writer decides what is written.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

// Store is a database. It is safe for many goroutines.
type Store struct {
	d     *dialect
	pools atomic.Pointer[pools]
	where string // for people, without a password
	file  string // of SQLite
	bytes int64  // that the file may have

	there atomic.Pointer[fs.FileInfo] // the file as Migrate found it; nil: not yet
}

// pools are the connections.
type pools struct {
	writes *sql.DB
	reads  *sql.DB // is writes, but for SQLite
}

func (s *Store) writes() *sql.DB { return s.pools.Load().writes }
func (s *Store) reads() *sql.DB  { return s.pools.Load().reads }

func (p *pools) close() error {
	err := p.writes.Close()
	if p.reads != p.writes {
		err = errors.Join(err, p.reads.Close())
	}
	return err
}

const (
	dialTimeout = 5 * time.Second
	connections = 8
	idleFor     = 5 * time.Minute
)

// ErrURL is wrapped by the error for a URL that names no database.
var ErrURL = errors.New("not the URL of a database for history")

// Config says which database.
type Config struct {
	// URL is sqlite:FILE, postgres://user:password@host/database or
	// mysql://user:password@host/database (MariaDB and MySQL).
	URL string
	// MaxBytes bounds a file of SQLite: beyond it Commit fails with ErrFull. 0: no bound.
	MaxBytes int64
}

// Open names a database. It does not connect: the first use does, and Migrate comes before it. The error wraps ErrURL.
func Open(cfg Config) (*Store, error) {
	if file, ok := strings.CutPrefix(cfg.URL, "sqlite:"); ok {
		if file == "" {
			return nil, fmt.Errorf("%w: sqlite: names no file", ErrURL)
		}
		s := &Store{d: &sqlite, where: cfg.URL, file: file, bytes: cfg.MaxBytes}
		s.pools.Store(openSQLite(file, cfg.MaxBytes))
		return s, nil
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: it can't be read (a password is percent-encoded)", ErrURL) // the error has the password
	}
	s := &Store{where: u.Redacted()}
	var db *sql.DB
	switch u.Scheme {
	case "postgres", "postgresql":
		s.d = &postgres
		db, err = openPostgres(cfg.URL)
	case "mysql", "mariadb":
		s.d = &mysql
		db, err = openMySQL(u)
	default:
		return nil, fmt.Errorf("%w: %q: write sqlite:FILE, postgres://user:password@host/database or mysql://user:password@host/database", ErrURL, u.Scheme+"://")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrURL, s.where, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetConnMaxIdleTime(idleFor)
	s.pools.Store(&pools{db, db})
	return s, nil
}

// String is where the database is, without a password.
func (s *Store) String() string { return s.where }

// Kind is sqlite, postgres or mysql.
func (s *Store) Kind() string { return s.d.name }

// Close closes all connections.
func (s *Store) Close() error { return s.pools.Load().close() }

// ErrGone is why a file of SQLite is not written any more.
var ErrGone = errors.New("the file was removed, renamed or replaced while it was in use")

// CheckFile returns ErrGone if a SQLite file is not at its place any more, or another one is: a later start would not find what is
// written to it.
func (s *Store) CheckFile() error {
	was := s.there.Load()
	if was == nil {
		return nil
	}
	if is, err := os.Stat(s.file); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(*was, is) {
		return ErrGone
	}
	return nil
}

// Reopen opens the file at its place, or a new one, after ErrGone. Migrate follows. Reads under way fail.
func (s *Store) Reopen() error {
	s.there.Store(nil)
	errs := []error{s.pools.Swap(openSQLite(s.file, s.bytes)).close()}
	for _, suffix := range []string{"-wal", "-shm"} { // of the file that is gone
		if err := os.Remove(s.file + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Migrate makes the tables, or upgrades tables of an earlier version. A database of a later version is an error.
func (s *Store) Migrate(ctx context.Context) error {
	if s.file != "" { // not readable by others; SQLite's own files get the same mode
		f, err := os.OpenFile(s.file, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		is, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		s.there.Store(&is)
	}
	files, err := fs.Sub(migrations, "migrations/"+s.d.name)
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithTableName("weir_migrations"), goose.WithDisableGlobalRegistry(true)}
	if s.d == &postgres { // of nodes that start together one makes the tables
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(s.d.goose, s.writes(), files, options...)
	if err != nil {
		return err
	}
	current, _, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("history: %s: %w", s.where, err)
	}
	if err := s.checkVersion(current); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("history: make the tables in %s: %w", s.where, err)
	}
	return nil
}

// version is the version of the tables that this build knows: each migration makes the next one.
const version = 3

var errLater = errors.New("the tables of history are those of a later version of Weir")

// checkVersion is an error for tables of a later version. A running node of an older build gets it too, because a migration takes
// all leases.
func (s *Store) checkVersion(is int64) error {
	if is > version {
		return fmt.Errorf("%w: %s has version %d, and this build knows %d: run the version of Weir that made them, or a newer one", errLater, s.where, is, version)
	}
	return nil
}
