package store

import (
	"context"
	"database/sql"
	"slices"
)

// daysAtOnce is how many days one statement goes through.
const daysAtOnce = 500

// removeKeys deletes all rows of keys.
func (s *Store) removeKeys(ctx context.Context, tx *sql.Tx, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	days, err := s.days(ctx, tx, "weir_hours")
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := s.removeWhere(ctx, tx, days, "{key} = ?", column(key)); err != nil {
			return err
		}
	}
	return nil
}

// removeWhere deletes rows in both tables, of the days that weir_hours has, and tells how many.
func (s *Store) removeWhere(ctx context.Context, tx *sql.Tx, days []int64, where string, args ...any) (n int64, err error) {
	remove := func(statement string) error {
		done, err := tx.ExecContext(ctx, s.d.sql(statement), args...)
		if err != nil {
			return err
		}
		rows, err := done.RowsAffected()
		n += rows
		return err
	}
	for some := range slices.Chunk(days, daysAtOnce) {
		if err := remove("DELETE FROM weir_hours WHERE " + where + " AND day IN (" + in(some) + ")"); err != nil {
			return n, err
		}
	}
	return n, remove("DELETE FROM weir_days WHERE " + where)
}

// Forget deletes the history of keys, and tells whether there was any.
func (s *Store) Forget(ctx context.Context, keys ...string) (found bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		days, err := s.days(ctx, tx, "weir_hours")
		if err != nil {
			return err
		}
		for _, key := range keys {
			n, err := s.removeWhere(ctx, tx, days, "{key} = ?", column(key))
			if err != nil {
				return err
			}
			found = found || n > 0
		}
		return nil
	})
	return found, err
}

// prefixEnd is the first text after all that begin with prefix, by their bytes, and is UTF-8.
func prefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		switch next := runes[i] + 1; {
		case runes[i] == maxRune:
			continue
		case next >= firstSurrogate && next <= lastSurrogate:
			return string(runes[:i]) + string(rune(lastSurrogate+1))
		default:
			return string(runes[:i]) + string(next)
		}
	}
	return string([]rune{maxRune, maxRune, maxRune, maxRune, maxRune, maxRune, maxRune, maxRune})
}

const (
	maxRune        = 0x10FFFF
	firstSurrogate = 0xD800
	lastSurrogate  = 0xDFFF
)
