package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-counter/weir/bench/proc"
	_ "github.com/weir-counter/weir/internal/history/store" // the drivers
	"github.com/weir-counter/weir/internal/history/store/dbtest"
)

// database is one that can be measured.
type database struct {
	name   string
	server *dbtest.Server // nil: SQLite
	dir    string         // of the files of SQLite
	files  int
	placed func(statement string) string // a statement with the database's placeholders
	upsert string                        // what follows a list of values, to add up n
}

func databases(scratch string) []*database {
	postgres, mariadb := dbtest.NewPostgres(), dbtest.NewMariaDB()
	postgres.Durable, mariadb.Durable = true, true
	const onConflict = " ON CONFLICT (k, shard) DO UPDATE SET n = hits.n + excluded.n"
	return []*database{
		{name: "Postgres", server: postgres, placed: numbered, upsert: onConflict},
		{name: "MariaDB", server: mariadb, placed: asIs, upsert: " ON DUPLICATE KEY UPDATE n = n + VALUES(n)"},
		{name: "SQLite", dir: scratch, placed: asIs, upsert: onConflict},
	}
}

func asIs(statement string) string { return statement }

// numbered has $1, $2 and so on for each question mark.
func numbered(statement string) string {
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// make makes an empty database, and returns its URL for Weir, and connections for so many writers. SQLite has
// one, since it takes one writer at a time.
func (d *database) make(ctx context.Context, writers int) (url string, db *sql.DB, err error) {
	if d.server == nil {
		d.files++
		file := filepath.Join(d.dir, fmt.Sprintf("%d.db", d.files))
		db, err = sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err == nil {
			db.SetMaxOpenConns(1)
		}
		return "sqlite:" + file, db, err
	}
	if url, err = d.server.Database(ctx); err != nil {
		return "", nil, err
	}
	driver, dsn := "pgx", url
	if address, ok := strings.CutPrefix(url, "mysql://root@"); ok {
		host, name, _ := strings.Cut(address, "/")
		driver, dsn = "mysql", "root@tcp("+host+")/"+name+"?interpolateParams=true&clientFoundRows=true"
	}
	if db, err = sql.Open(driver, dsn); err == nil {
		db.SetMaxOpenConns(writers)
		db.SetMaxIdleConns(writers)
	}
	return url, db, err
}

// cpu is what the server's processes have spent; nothing of SQLite, which is in the program.
func (d *database) cpu() (time.Duration, error) {
	if d.server == nil {
		return 0, nil
	}
	return proc.TreeCPU(d.server.Pid())
}

func (d *database) close() {
	if d.server != nil {
		d.server.Close()
	}
}
