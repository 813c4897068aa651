package store

import (
	"context"
	"database/sql"
	"fmt"
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
	numbers bool   // parameters are $1, $2 ..., and rows are passed as arrays
	level   sql.IsolationLevel
	words   *strings.Replacer // writes what is in braces in the statements of this package
}

var (
	sqlite = dialect{
		name: "sqlite", goose: goose.DialectSQLite3, words: words("key", "INTEGER", "min", "max", onConflict, "excluded.%s"),
		now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	}
	postgres = dialect{
		name: "postgres", goose: goose.DialectPostgres, words: words("key", "BIGINT", "LEAST", "GREATEST", onConflict, "excluded.%s"), numbers: true,
		now:     "CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT)",
		locking: " FOR UPDATE",
	}
	mysql = dialect{
		name: "mysql", goose: goose.DialectMySQL, words: words("`key`", "SIGNED", "LEAST", "GREATEST", "ON DUPLICATE KEY UPDATE", "VALUES(%s)"),
		now:     "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
		locking: " FOR UPDATE",
		level:   sql.LevelReadCommitted, // else reading locks what is read
	}
)

// onConflict begins what becomes of a row that exists, in SQLite and Postgres.
const onConflict = "ON CONFLICT (%s, {key}, origin) DO UPDATE SET"

func words(key, integer, least, greatest, exists, added string) *strings.Replacer {
	var list []string
	for _, columns := range []string{"day", "day, slot", "span"} {
		conflict := strings.ReplaceAll(exists, "{key}", key)
		if strings.Contains(exists, "%s") {
			conflict = fmt.Sprintf(conflict, columns)
		}
		list = append(list, "{on "+columns+" exists}", conflict)
	}
	for _, column := range []string{"n", "doubt", "upto"} {
		list = append(list, "{new "+column+"}", fmt.Sprintf(added, column))
	}
	return strings.NewReplacer(append(list, "{key}", key, "{int}", integer, "{least}", least, "{greatest}", greatest)...)
}

// sql is a statement of this package as the dialect writes it. It has ? for each parameter.
func (d *dialect) sql(statement string) string {
	statement = d.words.Replace(statement)
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

// rollSums adds a day to its month and year, or the difference to what weir_days has of it: parameters origin, day, day, month, year.
const rollSums = `INSERT INTO weir_sums (span, {key}, origin, n, doubt, upto)
	SELECT spans.span, h.{key}, h.origin, CAST({least}(h.n - COALESCE(d.n, 0), 72057594037927936) AS {int}), CAST({least}(h.doubt - COALESCE(d.doubt, 0), 72057594037927936) AS {int}), h.upto
	FROM (SELECT {key}, origin, sum(n) AS n, sum(doubt) AS doubt, max(upto) AS upto FROM weir_hours WHERE origin = ? AND day = ? GROUP BY {key}, origin) h
	LEFT JOIN weir_days d ON d.{key} = h.{key} AND d.day = ? AND d.origin = h.origin
	CROSS JOIN (SELECT CAST(? AS {int}) AS span UNION ALL SELECT CAST(? AS {int})) spans
	WHERE h.n <> COALESCE(d.n, 0) OR h.doubt <> COALESCE(d.doubt, 0)
	{on span exists} n = {least}(weir_sums.n + {new n}, 72057594037927936), doubt = {least}(weir_sums.doubt + {new doubt}, 72057594037927936),
		upto = {greatest}(weir_sums.upto, {new upto})`

// roll sums up the hours of a day: parameters origin, day.
const roll = `INSERT INTO weir_days ({key}, day, origin, n, doubt, upto)
	SELECT {key}, day, origin, CAST(sum(n) AS {int}), CAST(sum(doubt) AS {int}), max(upto) FROM weir_hours WHERE origin = ? AND day = ? GROUP BY {key}, day, origin
	{on day exists} n = {new n}, doubt = {new doubt}, upto = {new upto}`

// table is one that rows are added to.
type table struct {
	name   string
	number string // the column that has of
	value  func(*Row) int64
	slots  bool // it has a column for the slot
}

var (
	hours = table{"weir_hours", "day", (*Row).Day, true}
	days  = table{"weir_days", "day", (*Row).Day, false}
	sums  = table{"weir_sums", "span", func(r *Row) int64 { return r.Slot }, false}
)

// insert begins and ends a statement that adds rows. A row that exists gets what is added, once for each upto, and never beyond most.
func (t *table) insert() (head, tail string) {
	key := t.number
	if t.slots {
		key += ", slot"
	}
	head = "INSERT INTO " + t.name + " (" + key + ", {key}, origin, n, doubt, upto) "
	tail = " {on " + key + " exists}"
	for _, column := range []string{"n", "doubt"} {
		tail += strings.NewReplacer("{table}", t.name, "{column}", column).Replace(
			" {column} = CASE WHEN {table}.upto < {new upto} THEN {least}({table}.{column} + {new {column}}, 72057594037927936) ELSE {table}.{column} END,")
	}
	return head, tail + " upto = {greatest}(" + t.name + ".upto, {new upto})" // last: MySQL evaluates from left to right
}

// How many rows one statement has, as lists of parameters and as arrays.
const rowsAtOnce, arrayRows = 500, 10_000

func (d *dialect) upsert(ctx context.Context, tx *sql.Tx, t *table, rows []Row, origin int64, upto uint64) error {
	head, tail := t.insert()
	if d.numbers {
		return d.upsertArrays(ctx, tx, t, head, tail, rows, origin, upto)
	}
	list := "(?,?,?,?,?,?),"
	if t.slots {
		list = "(?,?,?,?,?,?,?),"
	}
	statement := func(rows int) string {
		return d.sql(head) + "VALUES " + strings.TrimSuffix(strings.Repeat(list, rows), ",") + d.sql(tail)
	}
	values := make([]any, 0, min(rowsAtOnce, len(rows))*7)
	add := func(rows []Row) []any {
		values = values[:0]
		for i := range rows {
			r := &rows[i]
			key, n, doubt := r.columns()
			if values = append(values, t.value(r)); t.slots {
				values = append(values, r.Slot)
			}
			values = append(values, key, origin, n, doubt, int64(upto))
		}
		return values
	}
	if len(rows) >= 2*rowsAtOnce {
		prepared, err := tx.PrepareContext(ctx, statement(rowsAtOnce))
		if err != nil {
			return err
		}
		defer prepared.Close()
		for ; len(rows) >= rowsAtOnce; rows = rows[rowsAtOnce:] {
			if _, err := prepared.ExecContext(ctx, add(rows[:rowsAtOnce])...); err != nil {
				return err
			}
		}
	}
	for len(rows) > 0 {
		n := min(rowsAtOnce, len(rows))
		if _, err := tx.ExecContext(ctx, statement(n), add(rows[:n])...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// upsertArrays is upsert with an array for each column.
func (d *dialect) upsertArrays(ctx context.Context, tx *sql.Tx, t *table, head, tail string, rows []Row, origin int64, upto uint64) error {
	statement := "SELECT number, key, ?, n, doubt, ? FROM unnest(?::int[], ?::text[], ?::bigint[], ?::bigint[]) AS new (number, key, n, doubt)"
	if t.slots {
		statement = "SELECT number, slot, key, ?, n, doubt, ? FROM unnest(?::int[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[]) AS new (number, key, n, doubt, slot)"
	}
	statement = d.sql(head + statement + tail)
	for len(rows) > 0 {
		n := min(arrayRows, len(rows))
		numbers, keys, hits, doubts, slots := make([]int32, n), make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n)
		for i := range rows[:n] {
			r := &rows[i]
			numbers[i], slots[i] = int32(t.value(r)), r.Slot
			keys[i], hits[i], doubts[i] = r.columns()
		}
		args := []any{origin, int64(upto), numbers, keys, hits, doubts}
		if t.slots {
			args = append(args, slots)
		}
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
