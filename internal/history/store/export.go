package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Selection is what of history is exported.
type Selection struct {
	Prefix   string // of the keys
	From, To int64  // days: the first, and the one after the last
	Days     bool   // days in place of slots

	Sampled string // begins the companion of a key, which has what sampling added to it; alone it is the companion of All
	All     string // the key of all hits
}

// Export calls f with the sums of keys and slots, or days. Sums from weir_days come first, by key; the others by day and key. An
// error of f ends it. What sampling added is in doubt, without an upper bound: a Doubt of math.MaxUint64.
func (v *View) Export(ctx context.Context, selection Selection, f func(Row) error) error {
	from := selection.From
	if selection.Days {
		from = min(max(v.Rolled, selection.From), selection.To)
		if err := v.export(ctx, selection, "weir_days", "day >= ? AND day < ?", []any{selection.From, from}, f); err != nil {
			return err
		}
	}
	days, err := v.s.days(ctx, v.tx)
	if err != nil {
		return err
	}
	for _, day := range days {
		if day < from || day >= selection.To {
			continue
		}
		if err := v.export(ctx, selection, "weir_hours", "day = ?", []any{day}, f); err != nil {
			return err
		}
	}
	return nil
}

// addedTo is the column with what sampling added to the sum of a row, by the row's key as column writes it: a parameter is escaped.
const addedTo = `(SELECT COALESCE(SUM(c.n) + SUM(c.doubt), 0) FROM {table} c WHERE c.day = r.day{same slot}` + onlyComplete + ` AND c.{key} = CASE
	WHEN r.{key} = '{all}' THEN '{sampled}' WHEN SUBSTR(r.{key}, 1, 2) = ? THEN CONCAT(SUBSTR(r.{key}, 1, 2), '{escaped sampled}', SUBSTR(r.{key}, 3))
	ELSE CONCAT('{sampled}', r.{key}) END)`

// export is Export of the days of one table that fit a condition.
func (v *View) export(ctx context.Context, selection Selection, table, when string, fit []any, f func(Row) error) error {
	sampled, err := numbers(ctx, v.tx, v.s.d.sql("SELECT 1 FROM "+table+" WHERE "+when+" AND {key} >= ? AND {key} < ? LIMIT 1"),
		append(slices.Clone(fit), selection.Sampled, prefixEnd(selection.Sampled))...)
	if err != nil {
		return err
	}
	at, slot, added, args := "day * 86400", "", "0", fit
	if !selection.Days {
		at, slot = "slot", ", slot"
	}
	if len(sampled) > 0 {
		same := ""
		if !selection.Days {
			same = " AND c.slot = r.slot"
		}
		added = strings.NewReplacer("{table}", table, "{same slot}", same, "{all}", selection.All, "{sampled}", selection.Sampled, "{escaped sampled}", hex.EncodeToString([]byte(selection.Sampled))).Replace(addedTo)
		args = append([]any{escaped}, fit...)
	}
	query := "SELECT {key}, " + at + ", SUM(n), SUM(doubt), " + added + " FROM " + table + " r WHERE " + when + onlyComplete
	if selection.Prefix != "" {
		query, args = query+" AND {key} >= ? AND {key} < ?", append(slices.Clone(args), selection.Prefix, prefixEnd(selection.Prefix))
	}
	query += " GROUP BY {key}, day" + slot + " ORDER BY {key}, day" + slot
	return scan(ctx, v.tx, v.s.d.sql(query), args, func(row *sql.Rows) error {
		var r Row
		var added uint64
		if err := row.Scan(&r.Key, &r.Slot, &r.N, &r.Doubt, &added); err != nil {
			return err
		}
		if r.Key = keyOf(r.Key); added > 0 {
			r.N, r.Doubt = r.N-min(r.N, added), math.MaxUint64
		}
		return f(r)
	})
}

// Keys returns the first keys of both tables that begin with prefix, which is not empty, and sort after another, by their bytes.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) (keys []string, err error) {
	err = s.View(ctx, func(v *View) error {
		days, err := s.days(ctx, v.tx)
		if err != nil {
			return err
		}
		queries := []string{"SELECT DISTINCT {key} FROM weir_days WHERE {key} >= ? AND {key} > ? AND {key} < ? ORDER BY {key} LIMIT ?"}
		for _, day := range days {
			if day >= v.Rolled {
				queries = append(queries, "SELECT DISTINCT {key} FROM weir_hours WHERE day = "+in([]int64{day})+" AND {key} >= ? AND {key} > ? AND {key} < ? ORDER BY {key} LIMIT ?")
			}
		}
		found := map[string]bool{}
		for _, query := range queries {
			if err := v.keys(ctx, found, s.d.sql(query), prefix, column(after), prefixEnd(prefix), limit); err != nil {
				return err
			}
		}
		keys = firstOf(found, limit)
		return nil
	})
	return keys, err
}

func (v *View) keys(ctx context.Context, found map[string]bool, query string, args ...any) error {
	return scan(ctx, v.tx, query, args, func(row *sql.Rows) error {
		var key string
		err := row.Scan(&key)
		found[strings.Clone(key)] = true
		return err
	})
}

func firstOf(found map[string]bool, limit int) []string {
	keys := slices.Sorted(maps.Keys(found))
	keys = keys[:min(limit, len(keys))]
	for i, key := range keys {
		keys[i] = keyOf(key)
	}
	return keys
}

// BeginFill begins to fill the history of a journal with rows that are made of snapshots, because messages of the journal are gone.
// It returns their origin, which counts once EndFill has ended it. What an earlier filling left that did not end is dropped.
func (s *Store) BeginFill(ctx context.Context, l *Lease) (origin int64, err error) {
	err = s.fenced(ctx, l, func(tx *sql.Tx) error {
		left, err := numbers(ctx, tx, s.d.sql("SELECT origin FROM weir_origins WHERE complete = 0 AND journal = ?"), l.Journal)
		if err != nil {
			return err
		}
		for _, table := range []string{"weir_hours", "weir_days", "weir_sums", "weir_ids", "weir_origins"} {
			if len(left) == 0 {
				break
			}
			if err := s.exec(ctx, tx, "DELETE FROM "+table+" WHERE origin IN ("+in(left)+")"); err != nil {
				return err
			}
		}
		origin, err = s.newOrigin(ctx, tx, l.Journal, false)
		return err
	})
	return origin, err
}

// AddFill adds rows to a filling, and puts them in order. All calls together have each key and slot of slots and days once.
func (s *Store) AddFill(ctx context.Context, l *Lease, origin int64, slots, days []Row, ids IDs) error {
	return s.fenced(ctx, l, func(tx *sql.Tx) error {
		if err := s.addIDs(ctx, tx, origin, ids); err != nil {
			return err
		}
		sortRows(slots)
		if err := s.d.upsert(ctx, tx, &hours, slots, origin, 1); err != nil {
			return err
		}
		return s.addDays(ctx, tx, origin, 1, days)
	})
}

// EndFill makes a filling count, and sets the position after it. rolled is the first day that must be summed up again: the filling
// has no row for it. Snapshots do not know when ids were seen but for the last time, so these are known from now on.
func (s *Store) EndFill(ctx context.Context, l *Lease, origin int64, b *Batch, rolled int64) error {
	after := *l
	after.Position, after.Message, after.AsOf, after.Rolled = b.Position, b.Message, b.AsOf, rolled
	after.Gaps += len(b.Gaps)
	err := s.fenced(ctx, l, func(tx *sql.Tx) error {
		if err := s.exec(ctx, tx, "UPDATE weir_origins SET complete = 1 WHERE origin = ?", origin); err != nil {
			return err
		}
		if err := s.exec(ctx, tx, "INSERT INTO weir_ids ({key}, begins, wide, origin, ids) VALUES ('', ?, 0, ?, '')", time.Now().Unix(), origin); err != nil {
			return err
		}
		return s.reached(ctx, tx, &after, b.Gaps)
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
	all, err := s.days(ctx, s.reads())
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
		if err := eachRow(ctx, s.reads(), s.d.sql(query), args, func(r Row) error { f(r); return nil }); err != nil {
			return s.named(err)
		}
	}
	return nil
}
