package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// Fill is rows that are made of snapshots, where the journal's messages are gone: they count only
// once EndFill says that all are there.
type Fill struct{ Origin int64 }

// BeginFill begins to fill the history of a journal, and drops what an earlier filling left that
// did not come to its end.
func (s *Store) BeginFill(ctx context.Context, l *Lease) (f Fill, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		if err := s.fence(ctx, tx, l); err != nil {
			return err
		}
		left, err := numbers(ctx, tx, s.d.sql("SELECT origin FROM weir_origins WHERE complete = 0 AND journal = ?"), l.Journal)
		if err != nil {
			return err
		}
		for _, statement := range []string{"DELETE FROM weir_hours WHERE origin IN (", "DELETE FROM weir_days WHERE origin IN (", "DELETE FROM weir_sums WHERE origin IN (", "DELETE FROM weir_origins WHERE origin IN ("} {
			if len(left) == 0 {
				break
			}
			if _, err := tx.ExecContext(ctx, statement+in(left)+")"); err != nil {
				return err
			}
		}
		f.Origin, err = s.newOrigin(ctx, tx, l.Journal, false)
		return err
	})
	return f, err
}

// AddFill adds rows to a filling, and puts them in order: each key and slot once in all calls.
func (s *Store) AddFill(ctx context.Context, l *Lease, f Fill, slots, days []Row) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if err := s.fence(ctx, tx, l); err != nil {
			return err
		}
		sortRows(slots)
		if err := s.d.hours(ctx, tx, slots, f.Origin, 1); err != nil {
			return err
		}
		return s.addDays(ctx, tx, f.Origin, 1, days)
	})
}

// EndFill has a filling count, and sets the position after it. rolled is the first day that is
// to be summed up again: it has no row of its own in the filling.
func (s *Store) EndFill(ctx context.Context, l *Lease, f Fill, b *Batch, rolled int64) error {
	after := *l
	after.Position, after.Message, after.AsOf, after.Rolled = b.Position, b.Message, b.AsOf, rolled
	after.Gaps += len(b.Gaps)
	err := s.tx(ctx, func(tx *sql.Tx) error {
		if err := s.fence(ctx, tx, l); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET position = ?, message = ?, as_of = ?, rolled = ? WHERE journal = ?"),
			after.Position, int64(after.Message), after.AsOf.UnixMilli(), after.Rolled, l.Journal); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_origins SET complete = 1 WHERE origin = ?"), f.Origin); err != nil {
			return err
		}
		return s.noteGaps(ctx, tx, l.Journal, b.Gaps)
	})
	if err == nil {
		*l = after
	}
	return err
}

// keysAtOnce is how many keys one statement asks for.
const keysAtOnce = 200

// Has calls f with the rows that a journal has of some keys, in slots that begin in [from, to).
func (s *Store) Has(ctx context.Context, l *Lease, keys []string, from, to int64, f func(Row)) error {
	all, err := s.days(ctx, s.reads)
	if err != nil {
		return s.named(err)
	}
	days := slices.DeleteFunc(all, func(day int64) bool { return day < from/DaySeconds || day > (to-1)/DaySeconds })
	if len(days) == 0 {
		return nil
	}
	for some := range slices.Chunk(keys, keysAtOnce) {
		query := "SELECT {key}, slot, n, doubt FROM weir_hours WHERE day IN (" + in(days) + ") AND slot >= ? AND slot < ?" + onlyComplete +
			" AND origin IN (SELECT origin FROM weir_origins WHERE journal = ?) AND {key} IN (?" + strings.Repeat(",?", len(some)-1) + ")"
		args := []any{from, to, l.Journal}
		for _, key := range some {
			args = append(args, column(key))
		}
		if err := eachRow(ctx, s.reads, s.d.sql(query), args, func(r Row) error { f(r); return nil }); err != nil {
			return s.named(err)
		}
	}
	return nil
}
