package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	driver "modernc.org/sqlite"

	"github.com/weir-counter/weir/internal/files"
)

// File is the file of SQLite; "" of other databases.
func (s *Store) File() string { return s.file }

// CopyTo writes all that a SQLite file has at one moment to another file, which is overwritten.
func (s *Store) CopyTo(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	_, err = s.reads().ExecContext(ctx, "VACUUM INTO ?", path)
	return err
}

// CheckSpace returns an error if the disk has less free space than so many bytes next to the SQLite file.
func (s *Store) CheckSpace(bytes int64) error {
	free, err := files.FreeBytes(filepath.Dir(s.file))
	if err != nil {
		return fmt.Errorf("find out how much space %s has: %w", filepath.Dir(s.file), err)
	}
	if bytes < 0 || free < bytes {
		return fmt.Errorf("the disk of %s has %d bytes free, and a copy of history needs %d", filepath.Dir(s.file), free, bytes)
	}
	return nil
}

// Adopt replaces all rows with the rows of a file that CopyTo wrote, in one transaction: after an error nothing has changed. The
// file must have the journal of the lease, every other journal that this database has, and all of its hits. It returns the message
// up to which the file has all. The lease ends: Claim follows.
func (s *Store) Adopt(ctx context.Context, l *Lease, path string) (message uint64, err error) {
	from, err := Open(Config{URL: "sqlite:" + path})
	if err != nil {
		return 0, err
	}
	message, err = from.beAdopted(ctx, s, l)
	if err = errors.Join(err, from.Close()); err != nil {
		return 0, err
	}
	if s.bytes > 0 && from.FileSize() > s.bytes {
		return 0, fmt.Errorf("the copy has %d bytes, and history may have %d: raise --history-disk", from.FileSize(), s.bytes)
	}
	conn, err := s.writes().Conn(ctx)
	if err != nil {
		return 0, s.named(err)
	}
	defer conn.Close()
	if err := losesNothing(ctx, conn, path, l.Journal, message); err != nil {
		return 0, err
	}
	err = conn.Raw(func(c any) error { return restore(ctx, c, path) })
	_, truncated := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)") // else the log keeps the size of the copy, also after an error
	return message, s.named(errors.Join(err, truncated))
}

// beAdopted checks that a copy can replace a database, and prepares it.
func (s *Store) beAdopted(ctx context.Context, by *Store, l *Lease) (message uint64, err error) {
	if err := s.Migrate(ctx); err != nil { // it may be of an earlier version
		return 0, err
	}
	if _, err := s.writes().ExecContext(ctx, "UPDATE weir_journals SET holder = '', until = 0"); err != nil {
		return 0, err
	}
	var journals []JournalState
	if err := by.View(ctx, func(v *View) error {
		journals = v.Journals
		return nil
	}); err != nil {
		return 0, err
	}
	err = s.View(ctx, func(v *View) error {
		for _, j := range journals {
			if !slices.ContainsFunc(v.Journals, func(o JournalState) bool { return o.Journal == j.Journal }) {
				return fmt.Errorf("the copy has nothing of journal %s, and this history has", j.Journal)
			}
		}
		if !v.Begun(l.Journal) {
			return fmt.Errorf("the copy has nothing of journal %s yet", l.Journal)
		}
		message = v.Of(l.Journal).Message
		return nil
	})
	return message, err
}

// ErrLoses is the error of a copy that lacks hits which the database has.
var ErrLoses = errors.New("the copy lacks hits that this history has")

// losesNothing checks that a copy, which has a journal up to a message, has all hits of each key and day that writers of the database
// of a connection have read. Left out is what comes again from the journal: days since the one before the copy's last hits, and
// days of a key that a later message has changed. So are fillings of the journal: hits that these alone have are in a gap of the copy.
//
// Cost: both are read once.
func losesNothing(ctx context.Context, conn *sql.Conn, path, journal string, message uint64) (err error) {
	if _, err := conn.ExecContext(ctx, "ATTACH DATABASE ? AS copied", path); err != nil {
		return err
	}
	defer func() {
		_, detached := conn.ExecContext(context.WithoutCancel(ctx), "DETACH DATABASE copied")
		err = errors.Join(err, detached)
	}()
	var key, day string
	err = conn.QueryRowContext(ctx, `WITH read AS (
			SELECT p.origin, p.journal, j.rolled FROM main.weir_origins p JOIN main.weir_journals j ON j.journal = p.journal
			WHERE p.complete = 1 AND (p.origin = j.origin OR p.journal <> ?1)
		), own AS (
			SELECT key, date(day * 86400, 'unixepoch') AS day, sum(n) AS n, max(iif(journal = ?1, upto, 0)) AS upto FROM (
				SELECT d.key, d.day, d.n, d.upto, r.journal FROM main.weir_days d JOIN read r ON r.origin = d.origin
				UNION ALL SELECT h.key, h.day, h.n, h.upto, r.journal FROM main.weir_hours h JOIN read r ON r.origin = h.origin WHERE h.day >= r.rolled
			) GROUP BY key, day
		)
		SELECT o.key, o.day FROM own o LEFT JOIN copied.weir_daily c ON c.key = o.key AND c.day = o.day
		WHERE o.n > coalesce(c.hits, 0) AND o.upto <= ?2 AND o.day < (SELECT date(max(as_of) / 1000, 'unixepoch', '-1 day') FROM copied.weir_journals) LIMIT 1`,
		journal, int64(message)).Scan(&key, &day)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: of key %q on %s, for example", ErrLoses, key, day)
}

// pagesAtOnce is how many pages are copied before the context is checked.
const pagesAtOnce = 4096

func restore(ctx context.Context, conn any, path string) error {
	c, ok := conn.(interface {
		NewRestore(uri string) (*driver.Backup, error)
	})
	if !ok {
		return errors.New("the driver of SQLite copies no files")
	}
	b, err := c.NewRestore((&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String())
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if err = context.Cause(ctx); err == nil {
			more, err = b.Step(pagesAtOnce)
		}
	}
	return errors.Join(err, b.Finish())
}

// Begun reports whether all hits that were taken until some time are in the rows of a journal.
func (v *View) Begun(journal string) bool { return v.Of(journal).AsOf.UnixMilli() > 0 }

// Bytes is how many bytes of the SQLite file are in use: a copy takes no more.
func (v *View) Bytes(ctx context.Context) (bytes int64, err error) {
	err = v.tx.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}
