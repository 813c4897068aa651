package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// String is a line for whoever waits.
func (r row) String() string {
	return fmt.Sprintf("%-8s %6d keys %2d writers  %-38s %9.0f hits/s %9d retries %8.1f µs", r.database, r.keys, r.writers, r.way, r.perSecond(), r.retries, r.cost(r.cpu))
}

func (r row) perSecond() float64 { return float64(r.hits) / r.took.Seconds() }

// cost is the part of a hit in a time, in microseconds.
func (r row) cost(of time.Duration) float64 {
	return float64(of.Microseconds()) / float64(max(r.hits, 1))
}

// writePage writes the tables, which took so long to measure. where is of machine.Line.
func writePage(where string, cfg settings, rows []row, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks: counting in SQL

Written by `+"`make bench-sql`"+`. %[1]s, in %[5]v. Processes that ran or waited to on the machine, on average over five minutes: %[2]s when it began, %[3]s when it ended; beside this benchmark's own they slow all ways.

The textbook's counters are rows of a SQL table. Here the same hits are counted so, and by Weir with its [history](history.md) in the same database. Servers are Debian's, on loopback, and commits wait for the disk.
Each measurement sends hits for %[6]v, and ends when all are in the database: the sum of the table is compared with what was sent. Database, Weir and senders share the machine.

- (a) `+"`UPDATE ... SET n = n + 1`"+`, a transaction for each hit.
- (b) A version column: the row is read, and written if its version is the same still; else again. A retry is one of these.
- (c) `+"`INSERT ... ON CONFLICT DO UPDATE`, `ON DUPLICATE KEY UPDATE`"+`, for each hit.
- (d) Hits summed up by key in the program, 1,000 at a time, and one upsert for all. What is not written yet is lost with the program.
- (e) As (c), with a row for each writer and key, so that no writer waits for a row. Reads add up.
- (f) The writer of [history](history.md): the writers hit the engine of Weir in this program, its journal has their hits on disk within 100 ms, and the writer reads them there and writes history every %[4]v: no hit twice, none lost.
  Hits of one key in one flush of the journal are one sum, and a batch has one row for a key and hour, however many hits there were: of one hot key it is the engine that is measured. What is not in the journal yet is lost with the program.
- (g) The same in a server: requests of 1,000 hits to `+"`weir serve --history-url`"+`, each answered once its hits are on disk.

SQLite has one connection for all writers, since it takes one writer at a time. CPU is that of all processes for one hit, the senders' too; of it the database server's. Keys are drawn uniformly.

`, where, cfg.busy, busy(), historyEvery, took.Round(time.Second), cfg.each)
	for _, l := range loads {
		title := fmt.Sprintf("One hot key, %d writers", l.writers)
		switch {
		case l.keys > 1:
			title = fmt.Sprintf("%d,000 keys, %d writers", l.keys/1000, l.writers)
		case l.writers == 1:
			title = "One hot key, one writer"
		}
		fmt.Fprintf(&b, "## %s\n\n| database | way | hits/s | retries for each hit | CPU, µs | of it the database's |\n| --- | --- | ---: | ---: | ---: | ---: |\n", title)
		for _, r := range rows {
			if r.load != l {
				continue
			}
			server := "in the program"
			if r.database != "SQLite" {
				server = fmt.Sprintf("%.2f", r.cost(r.server))
			}
			fmt.Fprintf(&b, "| %s | %s | %.0f | %.2f | %.2f | %s |\n", r.database, r.way, r.perSecond(), float64(r.retries)/float64(max(r.hits, 1)), r.cost(r.cpu), server)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// busy is the load average of five minutes.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return "unknown"
	}
	return fields[1]
}
