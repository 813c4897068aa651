package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/wire"
)

// IDs are the different ids of keys in slots. Sets have no times (distinct.Set.Spans), so that the set of a day is the union of the
// sets of its slots. The table weir_ids has a row for both, which only grows.
type IDs struct {
	Slot int64 // seconds
	Sets map[string]map[int64]*distinct.Set
}

// idRetention is of sets without times: nothing leaves them.
const idRetention = 1

// addIDs adds ids to the rows of an origin, of slots and of days.
func (s *Store) addIDs(ctx context.Context, tx *sql.Tx, origin int64, ids IDs) error {
	for _, key := range slices.Sorted(maps.Keys(ids.Sets)) {
		days := map[int64]*distinct.Set{}
		for _, start := range slices.Sorted(maps.Keys(ids.Sets[key])) {
			set, day := ids.Sets[key][start], start-start%DaySeconds
			if err := s.addToRow(ctx, tx, set, column(key), start, ids.Slot, origin); err != nil {
				return err
			}
			if days[day] == nil {
				days[day] = distinct.New(idRetention)
			}
			days[day].Merge(set)
		}
		for _, day := range slices.Sorted(maps.Keys(days)) {
			if err := s.addToRow(ctx, tx, days[day], column(key), day, DaySeconds, origin); err != nil {
				return err
			}
		}
	}
	return nil
}

// addToRow adds ids to one row, in which set then is.
func (s *Store) addToRow(ctx context.Context, tx *sql.Tx, set *distinct.Set, row ...any) error {
	const where = " WHERE {key} = ? AND begins = ? AND wide = ? AND origin = ?"
	var was []byte
	err := tx.QueryRowContext(ctx, s.d.sql("SELECT ids FROM weir_ids"+where), row...).Scan(&was)
	if errors.Is(err, sql.ErrNoRows) {
		return s.exec(ctx, tx, "INSERT INTO weir_ids (ids, {key}, begins, wide, origin) VALUES (?, ?, ?, ?, ?)", append([]any{set.Append(nil)}, row...)...)
	}
	if err != nil {
		return err
	}
	before, err := readIDs(was)
	if err != nil {
		return err
	}
	set.Merge(before)
	now := set.Append(nil)
	if bytes.Equal(now, was) {
		return nil
	}
	return s.exec(ctx, tx, "UPDATE weir_ids SET ids = ?"+where, append([]any{now}, row...)...)
}

func readIDs(b []byte) (*distinct.Set, error) {
	r := wire.NewReader(b)
	if set := distinct.Read(r, idRetention); r.Done() {
		return set, nil
	}
	return nil, errors.New("history: a row of weir_ids can't be read")
}

// IDs calls f with the ids of a key in slots, or days, that begin in [from, to), Unix seconds, in their order.
func (v *View) IDs(ctx context.Context, key string, from, to int64, days bool, f func(begins, wide int64, set *distinct.Set)) error {
	wide := "<"
	if days {
		wide = "="
	}
	query := "SELECT begins, wide, ids FROM weir_ids WHERE {key} = ? AND begins >= ? AND begins < ? AND wide > 0 AND wide " + wide + " 86400" + onlyComplete + " ORDER BY begins"
	return scan(ctx, v.tx, v.s.d.sql(query), []any{column(key), from, to}, func(row *sql.Rows) error {
		var begins, wide int64
		var b []byte
		if err := row.Scan(&begins, &wide, &b); err != nil {
			return err
		}
		set, err := readIDs(b)
		if err == nil {
			f(begins, wide, set)
		}
		return err
	})
}

// IDsSince is the second from which on all ids are in the rows: before, only those are that were known to snapshots.
func (v *View) IDsSince(ctx context.Context) (second int64, err error) {
	list, err := numbers(ctx, v.tx, v.s.d.sql("SELECT begins FROM weir_ids WHERE {key} = '' ORDER BY begins DESC LIMIT 1"))
	if len(list) > 0 {
		second = list[0]
	}
	return second, err
}
