package store

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

func postgresAdds(table string) string {
	return ` DO UPDATE SET
	n = LEAST(` + table + `.n + excluded.n, 72057594037927936), doubt = LEAST(` + table + `.doubt + excluded.doubt, 72057594037927936), upto = excluded.upto
	WHERE ` + table + `.upto < excluded.upto`
}

var postgres = dialect{
	name: "postgres", goose: goose.DialectPostgres, numbers: true,
	now:     "(extract(epoch from clock_timestamp()) * 1000)::bigint",
	locking: " FOR UPDATE",
	hours: byArrays(`INSERT INTO weir_hours (day, key, slot, origin, n, doubt, upto)
		SELECT day, key, slot, $1, n, doubt, $2 FROM unnest($3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) AS new (day, key, slot, n, doubt)
		ON CONFLICT (day, key, slot, origin)`+postgresAdds("weir_hours"), (*Row).Day, true),
	days: byArrays(`INSERT INTO weir_days (key, day, origin, n, doubt, upto)
		SELECT key, day, $1, n, doubt, $2 FROM unnest($3::int[], $4::text[], $5::bigint[], $6::bigint[]) AS new (day, key, n, doubt)
		ON CONFLICT (key, day, origin)`+postgresAdds("weir_days"), (*Row).Day, false),
	sums: byArrays(`INSERT INTO weir_sums (span, key, origin, n, doubt, upto)
		SELECT span, key, $1, n, doubt, $2 FROM unnest($3::int[], $4::text[], $5::bigint[], $6::bigint[]) AS new (span, key, n, doubt)
		ON CONFLICT (span, key, origin)`+postgresAdds("weir_sums"), func(r *Row) int64 { return r.Slot }, false),
	rollSums: `INSERT INTO weir_sums (span, key, origin, n, doubt, upto)
		SELECT spans.span, h.key, h.origin, LEAST(h.n - COALESCE(d.n, 0), 72057594037927936)::bigint, LEAST(h.doubt - COALESCE(d.doubt, 0), 72057594037927936)::bigint, h.upto
		FROM (SELECT key, origin, sum(n) AS n, sum(doubt) AS doubt, max(upto) AS upto FROM weir_hours WHERE origin = ? AND day = ? GROUP BY key, origin) h
		LEFT JOIN weir_days d ON d.key = h.key AND d.day = ? AND d.origin = h.origin
		CROSS JOIN (SELECT CAST(? AS INTEGER) AS span UNION ALL SELECT CAST(? AS INTEGER)) spans
		WHERE h.n <> COALESCE(d.n, 0) OR h.doubt <> COALESCE(d.doubt, 0)
		ON CONFLICT (span, key, origin) DO UPDATE SET
			n = LEAST(weir_sums.n + excluded.n, 72057594037927936), doubt = LEAST(weir_sums.doubt + excluded.doubt, 72057594037927936), upto = GREATEST(weir_sums.upto, excluded.upto)`,
	roll: `INSERT INTO weir_days (key, day, origin, n, doubt, upto)
		SELECT key, day, origin, sum(n)::bigint, sum(doubt)::bigint, max(upto) FROM weir_hours WHERE origin = ? AND day = ? GROUP BY key, day, origin
		ON CONFLICT (key, day, origin) DO UPDATE SET n = excluded.n, doubt = excluded.doubt, upto = excluded.upto`,
	size: func(ctx context.Context, db *sql.DB) (bytes int64, err error) {
		err = db.QueryRowContext(ctx, "SELECT pg_total_relation_size('weir_hours') + pg_total_relation_size('weir_days') + pg_total_relation_size('weir_sums')").Scan(&bytes)
		return bytes, err
	},
}

// arrayRows is how many rows one statement has as arrays.
const arrayRows = 10_000

// byArrays is an upsert whose rows are arrays of columns; of is the number of the day, or span, that a row is of,
// and slots says whether they have slots.
func byArrays(statement string, of func(*Row) int64, slots bool) upsert {
	return func(ctx context.Context, tx *sql.Tx, rows []Row, origin int64, upto uint64) error {
		for len(rows) > 0 {
			n := min(arrayRows, len(rows))
			days, keys, at, hits, doubts := make([]int32, n), make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n)
			for i := range rows[:n] {
				r := &rows[i]
				days[i], at[i] = int32(of(r)), r.Slot
				keys[i], hits[i], doubts[i] = r.columns()
			}
			args := []any{origin, int64(upto), days, keys, at, hits, doubts}
			if !slots {
				args = []any{origin, int64(upto), days, keys, hits, doubts}
			}
			if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	}
}

// openPostgres opens a URL as libpq reads it.
func openPostgres(url string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dialTimeout
	}
	cfg.RuntimeParams["timezone"] = "UTC"
	return stdlib.OpenDB(*cfg), nil
}
