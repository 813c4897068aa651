package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

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
	size: func(ctx context.Context, db *sql.DB) (bytes int64, err error) {
		err = db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&bytes)
		return bytes, err
	},
}

// sqlitePage is the size of a page of a new file, in bytes.
const sqlitePage = 4096

// openSQLite opens a file, which is made if it is not there. A transaction is on disk when it has
// ended, a reader waits for no writer, and what is deleted is overwritten.
func openSQLite(path string, maxBytes int64) (*sql.DB, *sql.DB) {
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
	return writes, reads
}
