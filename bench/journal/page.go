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
const explanation = `Servers and senders share the machine, and the embedded server syncs every flush. Post: as many hits as fit, with a journal and
without, in turns; cost compares the two. Durable: the wait of hits that are answered once they are on disk; everybody who waits has the
slowest sync in their wait, so look at what else writes to the disk before the 99th percentile. Flush: what compressing would save and
cost. Start: of a server, with all keys in snapshots, and with a journal and no snapshot; cpu-s is its processor time, of all
cores together. What the journal takes of a hit, and why the goal for a million keys is missed: [decisions/0007-journal.md](decisions/0007-journal.md).
`

// writePage writes the results of this machine to a file.
func writePage(ctx context.Context, path, lines string) error {
	where, err := machine.Line(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(pageOf(where, lines)), 0o644)
}

// pageOf is the middle of each measurement and its spread, and the lines
// themselves.
func pageOf(where, lines string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks of the journal\n\nWritten by `make bench-journal`. %s.\n\n%s\n", where, explanation)
	b.WriteString("| | unit | goal | median | least | most | runs |\n| --- | --- | --- | ---: | ---: | ---: | ---: |\n")
	for _, m := range collect(lines) {
		slices.Sort(m.values)
		n := len(m.values)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %d |\n", m.name, m.unit, goals[m.name+" "+m.unit],
			plain(m.values[n/2]), plain(m.values[0]), plain(m.values[n-1]), n)
	}
	fmt.Fprintf(&b, "\nThe lines, for benchstat:\n\n```\n%s```\n", lines)
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
			if at < 0 {
				at, all = len(all), append(all, &metric{name: name, unit: unit})
			}
			all[at].values = append(all[at].values, value)
		}
	}
	return all
}
