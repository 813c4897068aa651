package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// String is a line for whoever waits.
func (r row) String() string {
	return fmt.Sprintf("%-8s %6d keys %2d writers  %-38s %9.0f hits/s %9d retries %8.1f µs", r.database, r.keys, r.writers, r.way, r.perSecond(), r.retries, r.cost(r.cpu))
}

func (r row) perSecond() float64 { return float64(r.hits) / r.took.Seconds() }

// cost is the part of a hit in a time, in microseconds.
func (r row) cost(took time.Duration) float64 {
	return float64(took.Microseconds()) / float64(max(r.hits, 1))
}

// writePage writes the tables, which took so long to measure. where is of machine.Line.
func writePage(where string, cfg settings, rows []row, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks: counting in SQL

Written by `+"`make bench-sql`"+`. %[1]s, in %[5]v. Load average: %[2]s at the start, %[3]s at the end.

The same hits are counted in SQL rows, as in textbooks, and by Weir with its [history](history.md) in the same database. Servers are Debian's, on loopback;
commits wait for the disk. Each measurement sends hits for %[6]v and checks the sum in the table. Keys are drawn uniformly.

- (a) `+"`UPDATE ... SET n = n + 1`"+` in a transaction per hit.
- (b) Optimistic locking with a version column; a changed row is retried.
- (c) `+"`INSERT ... ON CONFLICT DO UPDATE`"+` (MariaDB: `+"`ON DUPLICATE KEY UPDATE`"+`) per hit.
- (d) Hits summed up in the program, 1,000 per upsert. A crash loses unsent ones.
- (e) As (c), with one row per writer and key.
- (f) Weir's history from an engine in the same program, written every %[4]v. A batch has one row per key and hour: with one hot key, this measures the engine.
- (g) The same with requests of 1,000 hits to `+"`weir serve --history-url`"+`, answered once its hits are on disk.

Cells are hits/s, and in brackets the CPU of all processes and senders for one hit in µs; for (b) also the retries per hit. SQLite has one connection for all writers.

`, where, cfg.busy, busy(), historyEvery, took.Round(time.Second), cfg.each)
	var databases, ways []string
	for _, r := range rows {
		if !slices.Contains(databases, r.database) {
			databases = append(databases, r.database)
		}
		if !slices.Contains(ways, r.way) {
			ways = append(ways, r.way)
		}
	}
	for _, l := range loads {
		title := fmt.Sprintf("One hot key, %d writers", l.writers)
		switch {
		case l.keys > 1:
			title = fmt.Sprintf("%d,000 keys, %d writers", l.keys/1000, l.writers)
		case l.writers == 1:
			title = "One hot key, one writer"
		}
		fmt.Fprintf(&b, "## %s\n\n| way | %s |\n|---|%s\n", title, strings.Join(databases, " | "), strings.Repeat("---|", len(databases)))
		for _, way := range ways {
			cells := ""
			for _, database := range databases {
				at := slices.IndexFunc(rows, func(r row) bool { return r.load == l && r.way == way && r.database == database })
				if at >= 0 {
					cells += " " + rows[at].cell()
				}
				cells += " |"
			}
			if strings.Trim(cells, " |") != "" {
				letter, _, _ := strings.Cut(way, " ") // explained above
				fmt.Fprintf(&b, "| %s |%s\n", letter, cells)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cell returns the rate, the CPU of a hit and the retries, if there were any.
func (r row) cell() string {
	retries := ""
	if r.retries > 0 {
		retries = fmt.Sprintf("; %.2f", float64(r.retries)/float64(max(r.hits, 1)))
	}
	return fmt.Sprintf("%.0f (%.4g%s)", r.perSecond(), r.cost(r.cpu), retries)
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
