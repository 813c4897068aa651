package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver
)

// added is what a row becomes to which more is added: once for each upto, and never beyond a bound.
const sqliteAdds = ` DO UPDATE SET
	n = CASE WHEN n > 72057594037927936 - excluded.n THEN 72057594037927936 ELSE n + excluded.n END,
	doubt = CASE WHEN doubt > 72057594037927936 - excluded.doubt THEN 72057594037927936 ELSE doubt + excluded.doubt END,
	upto = excluded.upto WHERE upto < excluded.upto`

var sqlite = dialect{
	name: "sqlite", goose: goose.DialectSQLite3,
	now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	hours: byLists("INSERT INTO weir_hours (day, key, slot, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?,?)",
		" ON CONFLICT (day, key, slot, origin)"+sqliteAdds, hourArgs),
	days: byLists("INSERT INTO weir_days (key, day, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?)",
		" ON CONFLICT (key, day, origin)"+sqliteAdds, dayArgs),
	sums: byLists("INSERT INTO weir_sums (span, key, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?)",
		" ON CONFLICT (span, key, origin)"+sqliteAdds, sumArgs),
	rollSums: `INSERT INTO weir_sums (span, key, origin, n, doubt, upto)
		SELECT spans.span, h.key, h.origin, min(h.n - COALESCE(d.n, 0), 72057594037927936), min(h.doubt - COALESCE(d.doubt, 0), 72057594037927936), h.upto
		FROM (SELECT key, origin, sum(n) AS n, sum(doubt) AS doubt, max(upto) AS upto FROM weir_hours WHERE origin = ? AND day = ? GROUP BY key, origin) h
		LEFT JOIN weir_days d ON d.key = h.key AND d.day = ? AND d.origin = h.origin
		CROSS JOIN (SELECT ? AS span UNION ALL SELECT ?) spans
		WHERE h.n <> COALESCE(d.n, 0) OR h.doubt <> COALESCE(d.doubt, 0)
		ON CONFLICT (span, key, origin) DO UPDATE SET
			n = min(n + excluded.n, 72057594037927936), doubt = min(doubt + excluded.doubt, 72057594037927936), upto = max(upto, excluded.upto)`,
	roll: `INSERT INTO weir_days (key, day, origin, n, doubt, upto)
		SELECT key, day, origin, sum(n), sum(doubt), max(upto) FROM weir_hours WHERE origin = ? AND day = ? GROUP BY key, day, origin
		ON CONFLICT (key, day, origin) DO UPDATE SET n = excluded.n, doubt = excluded.doubt, upto = excluded.upto`,
}

// sqlitePage is the size of a page of a new file, in bytes.
const sqlitePage = 4096

// openSQLite opens a file, which is made if it is not there. A transaction is on disk when it has
// ended, a reader waits for no writer, and what is deleted is overwritten.
func openSQLite(path string, maxBytes int64) *pools {
	of := func(begin string, more ...string) *sql.DB {
		q := url.Values{"_txlock": {begin}, "_pragma": {
			"busy_timeout(10000)", fmt.Sprintf("page_size(%d)", sqlitePage), "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", "temp_store(FILE)",
		}}
		q["_pragma"] = append(q["_pragma"], more...)
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String())
		if err != nil {
			panic(err) // the driver is there
		}
		return db
	}
	write := []string{"cache_size(-2048)"} // rows come in order: more of it saves nothing
	if maxBytes > 0 {
		write = append(write, fmt.Sprintf("max_page_count(%d)", max(maxBytes/sqlitePage, 256)))
	}
	writes := of("immediate", write...)
	writes.SetMaxOpenConns(1)
	reads := of("deferred", "cache_size(-8192)")
	reads.SetMaxOpenConns(4)
	return &pools{writes, reads}
}

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

// MySQL evaluates from left to right: upto comes last.
const mysqlAdds = ` ON DUPLICATE KEY UPDATE
	n = IF(upto < VALUES(upto), LEAST(n + VALUES(n), 72057594037927936), n), doubt = IF(upto < VALUES(upto), LEAST(doubt + VALUES(doubt), 72057594037927936), doubt),
	upto = GREATEST(upto, VALUES(upto))`

var mysql = dialect{
	name: "mysql", goose: goose.DialectMySQL,
	now:     "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
	locking: " FOR UPDATE",
	level:   sql.LevelReadCommitted, // else reading locks what is read
	hours:   byLists("INSERT INTO weir_hours (day, `key`, slot, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?,?)", mysqlAdds, hourArgs),
	days:    byLists("INSERT INTO weir_days (`key`, day, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?)", mysqlAdds, dayArgs),
	sums:    byLists("INSERT INTO weir_sums (span, `key`, origin, n, doubt, upto) VALUES ", "(?,?,?,?,?,?)", mysqlAdds, sumArgs),
	rollSums: strings.ReplaceAll(`INSERT INTO weir_sums (span, {key}, origin, n, doubt, upto)
		SELECT spans.span, h.{key}, h.origin, LEAST(h.n - COALESCE(d.n, 0), 72057594037927936), LEAST(h.doubt - COALESCE(d.doubt, 0), 72057594037927936), h.upto
		FROM (SELECT {key}, origin, sum(n) AS n, sum(doubt) AS doubt, max(upto) AS upto FROM weir_hours WHERE origin = ? AND day = ? GROUP BY {key}, origin) h
		LEFT JOIN weir_days d ON d.{key} = h.{key} AND d.day = ? AND d.origin = h.origin
		CROSS JOIN (SELECT ? AS span UNION ALL SELECT ?) spans
		WHERE h.n <> COALESCE(d.n, 0) OR h.doubt <> COALESCE(d.doubt, 0)
		ON DUPLICATE KEY UPDATE
			n = LEAST(weir_sums.n + VALUES(n), 72057594037927936), doubt = LEAST(weir_sums.doubt + VALUES(doubt), 72057594037927936), upto = GREATEST(weir_sums.upto, VALUES(upto))`, "{key}", "`key`"),
	roll: "INSERT INTO weir_days (`key`, day, origin, n, doubt, upto)" +
		" SELECT `key`, day, origin, sum(n), sum(doubt), max(upto) FROM weir_hours WHERE origin = ? AND day = ? GROUP BY `key`, day, origin" +
		" ON DUPLICATE KEY UPDATE n = VALUES(n), doubt = VALUES(doubt), upto = VALUES(upto)",
}

// openMySQL opens mysql://user:password@host:port/database?tls=true, or mysql://user@/database?socket=PATH.
func openMySQL(u *url.URL) (*sql.DB, error) {
	cfg := driver.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	cfg.Net, cfg.Addr = "tcp", u.Host
	if u.Port() == "" {
		cfg.Addr = u.Host + ":3306"
	}
	if socket := u.Query().Get("socket"); socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	for name, values := range u.Query() {
		switch name {
		case "socket":
		case "tls":
			cfg.TLSConfig = values[0]
		default:
			return nil, fmt.Errorf("parameter %q: mysql:// takes tls and socket", name)
		}
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("it names no database: write mysql://user:password@host:3306/database")
	}
	cfg.ClientFoundRows, cfg.InterpolateParams, cfg.MultiStatements = true, true, false
	cfg.Logger = &driver.NopLogger{} // errors are returned
	// A day of millions of keys is summed up in one statement. That the server is gone, TCP finds out before.
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTimeout, 10*time.Minute, time.Minute
	cfg.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "time_zone": "'+00:00'"}
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}
