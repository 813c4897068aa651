package store

import (
	"context"
	"database/sql"
	"slices"
)

// daysAtOnce is how many days, or spans, one statement goes through.
const daysAtOnce = 500

// removeKeys deletes all rows of keys, and tells how many there were.
func (s *Store) removeKeys(ctx context.Context, tx *sql.Tx, keys []string) (n int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	days, err := s.days(ctx, tx)
	if err != nil {
		return 0, err
	}
	spans, err := firsts(ctx, tx, "weir_sums", "span")
	if err != nil {
		return 0, err
	}
	remove := func(statement, key string) error {
		done, err := tx.ExecContext(ctx, s.d.sql(statement), column(key))
		if err != nil {
			return err
		}
		rows, err := done.RowsAffected()
		n += rows
		return err
	}
	for _, key := range keys {
		for some := range slices.Chunk(days, daysAtOnce) {
			if err := remove("DELETE FROM weir_hours WHERE {key} = ? AND day IN ("+in(some)+")", key); err != nil {
				return n, err
			}
		}
		for some := range slices.Chunk(spans, daysAtOnce) {
			if err := remove("DELETE FROM weir_sums WHERE {key} = ? AND span IN ("+in(some)+")", key); err != nil {
				return n, err
			}
		}
		if err := remove("DELETE FROM weir_days WHERE {key} = ?", key); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Forget deletes the history of keys, and tells whether there was any.
func (s *Store) Forget(ctx context.Context, keys ...string) (found bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		n, err := s.removeKeys(ctx, tx, keys)
		found = n > 0
		return err
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
