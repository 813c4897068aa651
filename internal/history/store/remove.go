package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// daysAtOnce is how many days, or spans, one statement goes through.
const daysAtOnce = 500

// removeKeys deletes all rows of keys, and returns how many there were.
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
		for _, table := range []string{"weir_days", "weir_ids"} {
			if err := remove("DELETE FROM "+table+" WHERE {key} = ?", key); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Forget deletes the history of keys, and reports whether there was any.
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

// Keep is for how long rows of keys with a prefix are kept. The longest prefix of a key counts.
type Keep struct {
	Prefix string        // "" holds for all others
	Slots  time.Duration // of weir_hours; 0: for ever
	Days   time.Duration // of weir_days; 0: for ever
}

// daysEvery is on every which day old rows of weir_days are looked for: all of it is read.
const daysEvery = 30

// Expire deletes what is older than it is kept. It goes by whole days, one in a transaction.
func (s *Store) Expire(ctx context.Context, l *Lease, keep []Keep, now time.Time) error {
	for _, table := range []string{"weir_hours", "weir_days"} {
		for _, k := range keep {
			age := k.Slots
			if table == "weir_days" {
				age = k.Days
			}
			if age == 0 {
				continue
			}
			if table == "weir_days" && now.Unix()/DaySeconds%daysEvery != 0 {
				continue
			}
			where, args := k.where(keep)
			if err := s.expire(ctx, l, table, now.Add(-age).Unix()/DaySeconds, where, args); err != nil {
				return err
			}
		}
	}
	return nil
}

const everything = "1 = 1"

// where are the keys that k holds for.
func (k Keep) where(all []Keep) (where string, args []any) {
	where = everything
	if k.Prefix != "" {
		where, args = "{key} >= ? AND {key} < ?", []any{k.Prefix, prefixEnd(k.Prefix)}
	}
	for _, o := range all {
		if len(o.Prefix) > len(k.Prefix) && strings.HasPrefix(o.Prefix, k.Prefix) {
			where += " AND NOT ({key} >= ? AND {key} < ?)"
			args = append(args, o.Prefix, prefixEnd(o.Prefix))
		}
	}
	return where, args
}

// expire deletes rows of days before a day. Days that are not summed up yet stay.
func (s *Store) expire(ctx context.Context, l *Lease, table string, before int64, where string, args []any) error {
	before = min(before, l.Rolled)
	if table == "weir_days" { // by key first: all days at once
		return s.dropDays(ctx, l, before, where, args)
	}
	days, err := s.days(ctx, s.reads())
	if err != nil {
		return s.named(err)
	}
	for _, day := range days {
		if day >= before {
			break
		}
		if err := s.dropSlots(ctx, l, day, strings.HasPrefix(where, everything), where, args...); err != nil {
			return err
		}
	}
	return nil
}

// dropSlots deletes the slots of a day, of the keys that where says. all says that nearly all keys have none after it: then the day counts as one without slots.
func (s *Store) dropSlots(ctx context.Context, l *Lease, day int64, all bool, where string, args ...any) error {
	return s.fenced(ctx, l, func(tx *sql.Tx) error {
		if all {
			if err := s.exec(ctx, tx, "UPDATE weir_journals SET since = ? WHERE journal = ? AND since <= ?", day+1, l.Journal, day); err != nil {
				return err
			}
		}
		if err := s.exec(ctx, tx, "DELETE FROM weir_ids WHERE begins >= ? AND begins < ? AND wide < 86400 AND "+where, append([]any{day * DaySeconds, (day + 1) * DaySeconds}, args...)...); err != nil {
			return err
		}
		return s.exec(ctx, tx, "DELETE FROM weir_hours WHERE day = ? AND "+where, append([]any{day}, args...)...)
	})
}

// dropDays deletes the days before one, and the months and years that end before the one that it is in.
func (s *Store) dropDays(ctx context.Context, l *Lease, before int64, where string, args []any) error {
	month, year := spansOf(before)
	return s.fenced(ctx, l, func(tx *sql.Tx) error {
		if err := s.exec(ctx, tx, "DELETE FROM weir_days WHERE day < ? AND "+where, append([]any{before}, args...)...); err != nil {
			return err
		}
		if err := s.exec(ctx, tx, "DELETE FROM weir_ids WHERE begins < ? AND "+where, append([]any{before * DaySeconds}, args...)...); err != nil {
			return err
		}
		return s.exec(ctx, tx, "DELETE FROM weir_sums WHERE (span < ? OR span > ? AND span < ?) AND "+where, append([]any{year, firstMonth, month}, args...)...)
	})
}

// DropOldest deletes the slots of the oldest day, of all keys, and returns which it was. The sums of the day stay. ok is false if no
// day is summed up yet.
func (s *Store) DropOldest(ctx context.Context, l *Lease) (day int64, ok bool, err error) {
	days, err := s.days(ctx, s.reads())
	if err != nil || len(days) == 0 || days[0] >= l.Rolled {
		return 0, false, s.named(err)
	}
	return days[0], true, s.dropSlots(ctx, l, days[0], true, everything)
}
