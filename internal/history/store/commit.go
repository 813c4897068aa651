package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Batch is what one transaction adds: all that the journal has between two positions.
type Batch struct {
	Remove []string // keys whose rows are deleted, before Rows are added
	Rows   []Row    // of different keys and slots; added to what is there. Commit puts them in order
	IDs    IDs      // added to what is there; Commit changes them
	Gaps   []Gap

	UpTo     uint64 // the last message that was read for it: greater than in the batch before
	Position []byte // after it
	Message  uint64 // of the journal, up to which nothing is needed any more
	AsOf     time.Time
}

// Commit writes a batch under a lease, as a whole or not at all. The error is ErrFenced if another writer has taken over. After any
// other error the batch may have been written: Claim returns what is.
func (s *Store) Commit(ctx context.Context, l *Lease, b *Batch) error {
	after := *l
	after.Position, after.Message = b.Position, b.Message
	after.Gaps += len(b.Gaps)
	if b.AsOf.After(after.AsOf) {
		after.AsOf = b.AsOf
	}
	err := s.fenced(ctx, l, func(tx *sql.Tx) error {
		if err := s.reached(ctx, tx, &after, b.Gaps); err != nil {
			return err
		}
		if _, err := s.removeKeys(ctx, tx, b.Remove); err != nil {
			return err
		}
		if err := s.addIDs(ctx, tx, l.Origin, b.IDs); err != nil {
			return err
		}
		return s.add(ctx, tx, l.Origin, l.Rolled, b.UpTo, b.Rows)
	})
	if err == nil {
		*l = after
	}
	return err
}

// add adds rows of an origin to both tables, because days may be summed up already. It puts rows in order.
func (s *Store) add(ctx context.Context, tx *sql.Tx, origin, rolled int64, upto uint64, rows []Row) error {
	late := map[Row]Row{}
	for i := range rows {
		if r := rows[i].bounded(); r.Day() < rolled {
			summed := Row{Key: r.Key, Slot: r.Day() * DaySeconds}
			day := late[summed]
			day.Key, day.Slot, day.N, day.Doubt = summed.Key, summed.Slot, day.N+r.N, day.Doubt+r.Doubt
			late[summed] = day
		}
	}
	sortRows(rows)
	if err := s.d.upsert(ctx, tx, &hours, rows, origin, upto); err != nil {
		return err
	}
	return s.addDays(ctx, tx, origin, upto, slices.Collect(maps.Values(late)))
}

// reached writes how far a journal is, and which gaps it has in addition.
func (s *Store) reached(ctx context.Context, tx *sql.Tx, l *Lease, gaps []Gap) error {
	for _, g := range gaps {
		if err := s.exec(ctx, tx, "INSERT INTO weir_gaps (journal, noted, first, last, why) VALUES (?, "+s.d.now+", ?, ?, ?)", l.Journal, g.First.Unix(), g.Last.Unix(), g.Why); err != nil {
			return err
		}
	}
	return s.exec(ctx, tx, "UPDATE weir_journals SET position = ?, message = ?, as_of = ?, rolled = ? WHERE journal = ?", l.Position, int64(l.Message), l.AsOf.UnixMilli(), l.Rolled, l.Journal)
}

// Roll sums up days in weir_days that are over: from l.Rolled up to day, without it. It may be interrupted, and called again.
func (s *Store) Roll(ctx context.Context, l *Lease, day int64) error {
	if day <= l.Rolled {
		return nil
	}
	days, err := s.days(ctx, s.writes())
	if err != nil {
		return err
	}
	for _, d := range append(days, day) {
		if d < l.Rolled {
			continue
		}
		upTo := min(d+1, day)
		err := s.fenced(ctx, l, func(tx *sql.Tx) error {
			if d < day {
				if err := s.sumUp(ctx, tx, l, d); err != nil {
					return err
				}
			}
			return s.exec(ctx, tx, "UPDATE weir_journals SET rolled = ? WHERE journal = ?", upTo, l.Journal)
		})
		if err != nil {
			return err
		}
		if l.Rolled = upTo; upTo == day {
			break
		}
	}
	return nil
}

func (s *Store) sumUp(ctx context.Context, tx *sql.Tx, l *Lease, day int64) error {
	origins, err := numbers(ctx, tx, s.d.sql("SELECT origin FROM weir_origins WHERE complete = 1 AND journal = ?"), l.Journal)
	if err != nil {
		return err
	}
	for _, origin := range origins {
		month, year := spansOf(day)
		if err := s.exec(ctx, tx, rollSums, origin, day, day, month, year); err != nil {
			return err
		}
		if err := s.exec(ctx, tx, roll, origin, day); err != nil {
			return err
		}
	}
	return nil
}

// asker is a database or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// days are the days that weir_hours has, in order.
func (s *Store) days(ctx context.Context, in asker) ([]int64, error) {
	return firsts(ctx, in, "weir_hours", "day")
}

// firsts are the values that a table has in the first column of its key, in order, each found by a step in its index.
func firsts(ctx context.Context, in asker, table, column string) ([]int64, error) {
	return numbers(ctx, in, strings.NewReplacer("{table}", table, "{column}", column).Replace(`WITH RECURSIVE d (at) AS (
		SELECT MIN({column}) FROM {table} UNION ALL SELECT (SELECT MIN({column}) FROM {table} WHERE {column} > d.at) FROM d WHERE d.at IS NOT NULL
	) SELECT at FROM d WHERE at IS NOT NULL`))
}

func numbers(ctx context.Context, in asker, query string, args ...any) (list []int64, err error) {
	err = scan(ctx, in, query, args, func(row *sql.Rows) error {
		var n int64
		err := row.Scan(&n)
		list = append(list, n)
		return err
	})
	return list, err
}

// scan calls f with each row of a query. An error of f ends it.
func scan(ctx context.Context, in asker, query string, args []any, f func(row *sql.Rows) error) error {
	rows, err := in.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Store) exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, s.d.sql(statement), args...)
	return err
}

// isFull reports whether SQLite is out of space, by its own bound or on the disk.
func isFull(err error) bool {
	failure, ok := errors.AsType[*driver.Error](err)
	return ok && failure.Code()&0xff == codes.SQLITE_FULL
}

func in(list []int64) string {
	b := make([]byte, 0, 8*len(list))
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%d", n)
	}
	return string(b)
}

// eachRow calls f with the rows of a query that selects key, slot, n and doubt. An error of f ends it.
func eachRow(ctx context.Context, in asker, query string, args []any, f func(Row) error) error {
	return scan(ctx, in, query, args, func(row *sql.Rows) error {
		var r Row
		if err := row.Scan(&r.Key, &r.Slot, &r.N, &r.Doubt); err != nil {
			return err
		}
		r.Key = keyOf(r.Key)
		return f(r)
	})
}

// Lease is the right to write the history of one journal, and what is written so far. Claim or Commit renew it, by the database's
// clock.
type Lease struct {
	Journal string
	Holder  string
	TTL     time.Duration

	Token    int64
	Origin   int64
	Slot     time.Duration // how wide slots are, since the first writer of the journal
	Position []byte        // nil: nothing was written yet
	Message  uint64
	AsOf     time.Time
	Rolled   int64 // the first day that is not summed up in weir_days
	Gaps     int   // how many times are noted of which hits may be missing
}

// Claim takes the lease of a journal, or renews the one with the token; 0: there is none yet. slot is the width of the slots of a
// new journal. It returns ErrHeld while another holder has the lease, and another error if a later version of Weir has changed the
// tables.
func (s *Store) Claim(ctx context.Context, journal, holder string, token int64, ttl, slot time.Duration) (l Lease, err error) {
	l = Lease{Journal: journal, Holder: holder, TTL: ttl}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		var is int64
		if err := tx.QueryRowContext(ctx, "SELECT MAX(version_id) FROM weir_migrations").Scan(&is); err != nil {
			return err
		}
		if err := s.checkVersion(is); err != nil {
			return err
		}
		if err := s.introduce(ctx, tx, journal, slot); err != nil {
			return err
		}
		var now, until, asOf, seconds int64
		var was string
		if err := tx.QueryRowContext(ctx, s.d.sql("SELECT origin, slot, position, message, as_of, rolled, token, holder, until, "+s.d.now+" FROM weir_journals WHERE journal = ?"+s.d.locking), journal).
			Scan(&l.Origin, &seconds, &l.Position, &l.Message, &asOf, &l.Rolled, &l.Token, &was, &until, &now); err != nil {
			return err
		}
		l.Slot, l.AsOf = time.Duration(seconds)*time.Second, time.UnixMilli(asOf)
		if err := tx.QueryRowContext(ctx, s.d.sql("SELECT COUNT(*) FROM weir_gaps WHERE journal = ?"), journal).Scan(&l.Gaps); err != nil {
			return err
		}
		if was != holder && until > now {
			return ErrHeld
		}
		if was != holder || token != l.Token {
			l.Token++
		}
		return s.exec(ctx, tx, "UPDATE weir_journals SET token = ?, holder = ?, until = ? WHERE journal = ?", l.Token, holder, now+ttl.Milliseconds(), journal)
	})
	return l, err
}

// introduce makes the rows of a journal that is new.
func (s *Store) introduce(ctx context.Context, tx *sql.Tx, journal string, slot time.Duration) error {
	var known int64
	err := tx.QueryRowContext(ctx, s.d.sql("SELECT origin FROM weir_journals WHERE journal = ?"), journal).Scan(&known)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	origin, err := s.newOrigin(ctx, tx, journal, true)
	if err != nil {
		return err
	}
	return s.exec(ctx, tx, "INSERT INTO weir_journals (journal, origin, slot) VALUES (?, ?, ?)", journal, origin, int64(slot/time.Second))
}

// newOrigin makes another origin of a journal, for its writer or for a filling.
func (s *Store) newOrigin(ctx context.Context, tx *sql.Tx, journal string, complete bool) (origin int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(origin), 0) + 1 FROM weir_origins").Scan(&origin); err != nil {
		return 0, err
	}
	is := 0
	if complete {
		is = 1
	}
	return origin, s.exec(ctx, tx, "INSERT INTO weir_origins (origin, journal, complete) VALUES (?, ?, ?)", origin, journal, is)
}

// Release gives a lease back, so that another writer can have it at once.
func (s *Store) Release(ctx context.Context, l *Lease) error {
	_, err := s.writes().ExecContext(ctx, s.d.sql("UPDATE weir_journals SET until = 0 WHERE journal = ? AND token = ?"), l.Journal, l.Token)
	return err
}

// fenced runs f in a transaction that renews a lease, and fails if the lease is not the newest any more.
func (s *Store) fenced(ctx context.Context, l *Lease, f func(tx *sql.Tx) error) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET until = "+s.d.now+" + ? WHERE journal = ? AND token = ?"), l.TTL.Milliseconds(), l.Journal, l.Token)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return errors.Join(ErrFenced, err)
		}
		return f(tx)
	})
}

func (s *Store) tx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.writes().BeginTx(ctx, &sql.TxOptions{Isolation: s.d.level})
	if err != nil {
		return s.named(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // err says why
		return s.named(err)
	}
	return s.named(tx.Commit())
}

func (s *Store) named(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrFenced), errors.Is(err, ErrHeld), errors.Is(err, errLater), errors.Is(err, context.Canceled):
		return err
	case isFull(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("history: %s: %w", s.where, err)
}
