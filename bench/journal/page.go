package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writePage writes the middle of each measurement and its spread, what machine
// it was, and the lines themselves.
func writePage(ctx context.Context, path, lines string) error {
	var b strings.Builder
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	_, model, _ := strings.Cut(string(cpu), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	fmt.Fprintf(&b, "# Benchmarks of the journal\n\nWritten by `make bench-journal`. %s, commit %s, %s, %d cores, %s.\n",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), strings.TrimSpace(string(commit)), model, runtime.NumCPU(), runtime.Version())
	b.WriteString("Servers and senders share the machine. The embedded server syncs every flush.\n\n" +
		"| | unit | median | least | most | runs |\n| --- | --- | ---: | ---: | ---: | ---: |\n")
	for _, m := range collect(lines) {
		slices.Sort(m.values)
		fmt.Fprintf(&b, "| %s | %s | %g | %g | %g | %d |\n", m.name, m.unit,
			m.values[len(m.values)/2], m.values[0], m.values[len(m.values)-1], len(m.values))
	}
	fmt.Fprintf(&b, "\nThe lines, for benchstat:\n\n```\n%s```\n", lines)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

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
