package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

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
	size: func(ctx context.Context, db *sql.DB) (bytes int64, err error) {
		err = db.QueryRowContext(ctx, "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('weir_hours', 'weir_days', 'weir_sums')").Scan(&bytes)
		return bytes, err
	},
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
