package store

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Selection is what of history is exported.
type Selection struct {
	Prefix   string // of the keys
	From, To int64  // days: the first, and the one after the last
	Days     bool   // days in place of slots
}

// Export calls f with the sums of keys and slots, or days. Those of weir_days come first, by key; else
// by day and key. An error of f ends it.
func (v *View) Export(ctx context.Context, of Selection, f func(Row) error) error {
	where, args := "1 = 1", []any{}
	if of.Prefix != "" {
		where, args = "{key} >= ? AND {key} < ?", []any{of.Prefix, prefixEnd(of.Prefix)}
	}
	where += onlyComplete
	from := of.From
	if of.Days {
		rolled := min(max(v.Rolled(), of.From), of.To)
		query := "SELECT {key}, day * 86400, SUM(n), SUM(doubt) FROM weir_days WHERE day >= ? AND day < ? AND " + where + " GROUP BY {key}, day ORDER BY {key}, day"
		if err := v.sums(ctx, f, query, append([]any{from, rolled}, args...)...); err != nil {
			return err
		}
		from = rolled
	}
	days, err := v.s.days(ctx, v.tx)
	if err != nil {
		return err
	}
	at, group := "slot", "slot"
	if of.Days {
		at, group = "day * 86400", "day"
	}
	query := "SELECT {key}, " + at + ", SUM(n), SUM(doubt) FROM weir_hours WHERE day = ? AND " + where + " GROUP BY {key}, " + group + " ORDER BY {key}, " + group
	for _, day := range days {
		if day < from || day >= of.To {
			continue
		}
		if err := v.sums(ctx, f, query, append([]any{day}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) sums(ctx context.Context, f func(Row) error, query string, args ...any) error {
	return eachRow(ctx, v.tx, v.s.d.sql(query), args, f)
}

// Keys are the first keys that begin with prefix, which is not empty, and sort after another: of
// both tables, by their bytes.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) (keys []string, err error) {
	err = s.View(ctx, func(v *View) error {
		days, err := s.days(ctx, v.tx)
		if err != nil {
			return err
		}
		queries := []string{"SELECT DISTINCT {key} FROM weir_days WHERE {key} >= ? AND {key} > ? AND {key} < ? ORDER BY {key} LIMIT ?"}
		for _, day := range days {
			if day >= v.Rolled() {
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
	rows, err := v.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		found[strings.Clone(key)] = true
	}
	return rows.Err()
}

// firstOf are the first columns by their bytes, as keys.
func firstOf(found map[string]bool, limit int) []string {
	keys := slices.Sorted(maps.Keys(found))
	keys = keys[:min(limit, len(keys))]
	for i, key := range keys {
		keys[i] = keyOf(key)
	}
	return keys
}
