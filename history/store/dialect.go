package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

// dialect is what differs between the databases.
type dialect struct {
	name    string
	goose   goose.Dialect
	now     string // the database's clock, Unix ms
	locking string // of a SELECT whose row is changed afterwards
	numbers bool   // parameters are $1, $2 ...
	level   sql.IsolationLevel

	hours, days, sums upsert
	// rollSums adds a day to its month and year, or by how much it differs from what weir_days has of it:
	// parameters origin, day, day, month, year. roll then sums up the hours of the day: origin, day.
	rollSums, roll string

	size func(ctx context.Context, db *sql.DB) (int64, error)
}

// upsert adds rows to a table, as columns has them.
type upsert func(ctx context.Context, tx *sql.Tx, rows []Row, origin int64, upto uint64) error

// sql is a statement with ? for each parameter, as the dialect writes it.
func (d *dialect) sql(statement string) string {
	if d.name == "mysql" {
		return strings.ReplaceAll(statement, "{key}", "`key`")
	}
	statement = strings.ReplaceAll(statement, "{key}", "key")
	if !d.numbers {
		return statement
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}

// most is what a row counts to at most, per slot: 96 slots of a day add up within 63 bits.
const most = 1 << 56

// rowsAtOnce is how many rows one statement has, where each is a list of parameters.
const rowsAtOnce = 500

// byLists is an upsert of lists of values: head, a list for each row, tail. args appends those of a row.
func byLists(head, list, tail string, args func(values []any, r *Row, origin int64, upto uint64) []any) upsert {
	whole := head + strings.TrimSuffix(strings.Repeat(list+",", rowsAtOnce), ",") + tail
	return func(ctx context.Context, tx *sql.Tx, rows []Row, origin int64, upto uint64) error {
		var prepared *sql.Stmt
		if len(rows) >= 2*rowsAtOnce {
			var err error
			if prepared, err = tx.PrepareContext(ctx, whole); err != nil {
				return err
			}
			defer prepared.Close()
		}
		values := make([]any, 0, rowsAtOnce*7)
		for len(rows) > 0 {
			n := min(rowsAtOnce, len(rows))
			values = values[:0]
			for i := range rows[:n] {
				values = args(values, &rows[i], origin, upto)
			}
			var err error
			switch {
			case n == rowsAtOnce && prepared != nil:
				_, err = prepared.ExecContext(ctx, values...)
			case n == rowsAtOnce:
				_, err = tx.ExecContext(ctx, whole, values...)
			default:
				_, err = tx.ExecContext(ctx, head+strings.TrimSuffix(strings.Repeat(list+",", n), ",")+tail, values...)
			}
			if err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	}
}

func hourArgs(values []any, r *Row, origin int64, upto uint64) []any {
	key, n, doubt := r.columns()
	return append(values, r.Day(), key, r.Slot, origin, n, doubt, int64(upto))
}

func sumArgs(values []any, r *Row, origin int64, upto uint64) []any {
	key, n, doubt := r.columns()
	return append(values, r.Slot, key, origin, n, doubt, int64(upto))
}

func dayArgs(values []any, r *Row, origin int64, upto uint64) []any {
	key, n, doubt := r.columns()
	return append(values, key, r.Day(), origin, n, doubt, int64(upto))
}
