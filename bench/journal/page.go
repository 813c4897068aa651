package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/bench/machine"
)

// goals are what some measurements should show, by name and unit.
var goals = map[string]string{
	"Post/keys=hot/cost lost-hits-%":    "at most 10",
	"Post/keys=zipf1M/cost lost-hits-%": "at most 10",
	"Post/keys=zipf1M/cost more-cpu-%":  "at most 10",
	"Start/keys=1M s":                   "under 2",
	"Start/journal=1024MiB s":           "at most 6",
}

// explanation is what a reader has to know of the lines.
const explanation = `Servers and senders share the machine. Every flush is synced. Each cell is a median, with least and most ([decision 7](decisions/0007-journal.md)).

- Post: as many hits as fit, with a journal and without, in turns; cost compares the two
- Durable: the time until a durable hit is answered
- Flush: what compression would save and cost
- Snapshot: of a million keys; longest-cut-ms is how long a partition is locked
- Start: from snapshots of all keys, and from a journal without snapshots; cpu-s is processor time
`

// writePage writes the results of this machine to a file.
func writePage(ctx context.Context, path, lines string) error {
	where, err := machine.Line(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(pageOf(where, lines)), 0o644)
}

// pageOf returns the page: one row for each measurement, with all its units.
func pageOf(where, lines string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks of the journal\n\nWritten by `make bench-journal`. %s.\n\n%s\n", where, explanation)
	b.WriteString("| measurement | result | goal |\n|---|---|---|\n")
	all := collect(lines)
	for i, m := range all {
		if i == 0 || all[i-1].name != m.name {
			fmt.Fprintf(&b, "| %s | ", m.name)
		}
		slices.Sort(m.values)
		n := len(m.values)
		fmt.Fprintf(&b, "%s %s", plain(m.values[n/2]), m.unit)
		if m.values[0] != m.values[n-1] {
			fmt.Fprintf(&b, " (%s..%s)", plain(m.values[0]), plain(m.values[n-1]))
		}
		if i+1 < len(all) && all[i+1].name == m.name {
			b.WriteString(", ")
			continue
		}
		var goal []string
		for _, other := range all {
			if g := goals[other.name+" "+other.unit]; g != "" && other.name == m.name {
				goal = append(goal, g+" "+other.unit)
			}
		}
		fmt.Fprintf(&b, " | %s |\n", strings.Join(goal, ", "))
	}
	return b.String()
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// metric is one unit of one benchmark.
type metric struct {
	name, unit string
	values     []float64
}

// collect gathers the metrics in the order in which they first came.
func collect(lines string) (all []*metric) {
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			name, unit := strings.TrimPrefix(fields[0], "Benchmark"), fields[i+1]
			at := slices.IndexFunc(all, func(m *metric) bool { return m.name == name && m.unit == unit })
			if at < 0 { // next to the other units of its name
				at = len(all)
				if same := slices.IndexFunc(all, func(m *metric) bool { return m.name == name }); same >= 0 {
					for at = same; at < len(all) && all[at].name == name; at++ {
					}
				}
				all = slices.Insert(all, at, &metric{name: name, unit: unit})
			}
			all[at].values = append(all[at].values, value)
		}
	}
	return all
}
