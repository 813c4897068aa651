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
	Gaps   []Gap

	UpTo     uint64 // the last message that was read for it: greater than in the batch before
	Position []byte // after it
	Message  uint64 // of the journal, up to which nothing is needed any more
	AsOf     time.Time
}

// Commit writes a batch under a lease, as a whole or not at all: the error is ErrFenced if
// another writer has taken over. After any other error it may have been written, and Claim tells.
func (s *Store) Commit(ctx context.Context, l *Lease, b *Batch) error {
	after := *l
	after.Position, after.Message = b.Position, b.Message
	after.Gaps += len(b.Gaps)
	if b.AsOf.After(after.AsOf) {
		after.AsOf = b.AsOf
	}
	err := s.tx(ctx, func(tx *sql.Tx) error {
		if err := s.fence(ctx, tx, l); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET position = ?, message = ?, as_of = ? WHERE journal = ?"),
			after.Position, int64(after.Message), after.AsOf.UnixMilli(), l.Journal); err != nil {
			return err
		}
		if err := s.noteGaps(ctx, tx, l.Journal, b.Gaps); err != nil {
			return err
		}
		if _, err := s.removeKeys(ctx, tx, b.Remove); err != nil {
			return err
		}
		return s.add(ctx, tx, l.Origin, l.Rolled, b.UpTo, b.Rows)
	})
	if err == nil {
		*l = after
	}
	return err
}

// add adds rows of an origin to both tables: days that are summed up already get what is late. It puts rows in order.
func (s *Store) add(ctx context.Context, tx *sql.Tx, origin, rolled int64, upto uint64, rows []Row) error {
	late := map[Row]Row{}
	for i := range rows {
		if r := rows[i].bounded(); r.Day() < rolled {
			of := Row{Key: r.Key, Slot: r.Day() * DaySeconds}
			day := late[of]
			day.Key, day.Slot, day.N, day.Doubt = of.Key, of.Slot, day.N+r.N, day.Doubt+r.Doubt
			late[of] = day
		}
	}
	sortRows(rows)
	if err := s.d.hours(ctx, tx, rows, origin, upto); err != nil {
		return err
	}
	return s.addDays(ctx, tx, origin, upto, slices.Collect(maps.Values(late)))
}

func (s *Store) noteGaps(ctx context.Context, tx *sql.Tx, journal string, gaps []Gap) error {
	for _, g := range gaps {
		if _, err := tx.ExecContext(ctx, s.d.sql("INSERT INTO weir_gaps (journal, noted, first, last, why) VALUES (?, "+s.d.now+", ?, ?, ?)"),
			journal, g.First.Unix(), g.Last.Unix(), g.Why); err != nil {
			return err
		}
	}
	return nil
}

// Roll sums up days in weir_days that are over: from l.Rolled up to day, without it. It
// may be interrupted, and called again.
func (s *Store) Roll(ctx context.Context, l *Lease, day int64) error {
	if day <= l.Rolled {
		return nil
	}
	days, err := s.days(ctx, s.writes)
	if err != nil {
		return err
	}
	for _, d := range append(days, day) {
		if d < l.Rolled {
			continue
		}
		upTo := min(d+1, day)
		err := s.tx(ctx, func(tx *sql.Tx) error {
			if err := s.fence(ctx, tx, l); err != nil {
				return err
			}
			if d < day {
				if err := s.sumUp(ctx, tx, l, d); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET rolled = ? WHERE journal = ?"), upTo, l.Journal)
			return err
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

// sumUp sums up one day of all origins of a journal.
func (s *Store) sumUp(ctx context.Context, tx *sql.Tx, l *Lease, day int64) error {
	origins, err := numbers(ctx, tx, s.d.sql("SELECT origin FROM weir_origins WHERE complete = 1 AND journal = ?"), l.Journal)
	if err != nil {
		return err
	}
	for _, origin := range origins {
		month, year := spansOf(day)
		if _, err := tx.ExecContext(ctx, s.d.sql(s.d.rollSums), origin, day, day, month, year); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.d.sql(s.d.roll), origin, day); err != nil {
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
	rows, err := in.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// isFull tells whether SQLite has no room, by its own bound or on the disk.
func isFull(err error) bool {
	of, ok := errors.AsType[*driver.Error](err)
	return ok && of.Code()&0xff == codes.SQLITE_FULL
}

// in is a list of numbers for IN (...).
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
	rows, err := in.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.Key, &r.Slot, &r.N, &r.Doubt); err != nil {
			return err
		}
		r.Key = keyOf(r.Key)
		if err := f(r); err != nil {
			return err
		}
	}
	return rows.Err()
}
