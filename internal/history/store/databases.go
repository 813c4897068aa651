package store

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver
)

// sqlitePage is the size of a page of a new file, in bytes.
const sqlitePage = 4096

// openSQLite opens a file, which is made if it is not there. A transaction is on disk when it has
// ended, a reader waits for no writer, and what is deleted is overwritten.
func openSQLite(path string, maxBytes int64) *pools {
	open := func(begin string, more ...string) *sql.DB {
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
	writes := open("immediate", write...)
	writes.SetMaxOpenConns(1)
	reads := open("deferred", "cache_size(-8192)")
	reads.SetMaxOpenConns(4)
	return &pools{writes, reads}
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
