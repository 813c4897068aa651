package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// writePage writes the tables. where is of machine.Line.
func writePage(ctx context.Context, where, redis string, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks of RESP and gRPC

Written by `+"`make bench-listeners`"+`. %s, %s.

Server CPU for one command in µs, with the kernel's network part: the median, the largest deviation, and the ratio to Redis at the same task.
%d connections send -P commands at once. All servers share the machine. Keys follow Zipf's law (1.1). Nothing is kept on disk, except in rows that say durable. %s

`, where, version(ctx, redis), connections, load())
	b.WriteString("| task | server | command | -P 16 | -P 64 | goal |\n|---|---|---|---|---|---|\n")
	same := func(a, b row) bool { return a.workload == b.workload && a.server == b.server && a.command == b.command }
	for i, r := range rows {
		if slices.ContainsFunc(rows[:i], func(earlier row) bool { return same(earlier, r) }) {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` |", r.workload, r.server, r.command)
		goal := ""
		for _, pipeline := range pipelines {
			at := slices.IndexFunc(rows, func(other row) bool { return same(other, r) && other.pipeline == pipeline })
			base := slices.IndexFunc(rows, func(other row) bool {
				return other.workload == r.workload && other.server == "redis" && other.pipeline == pipeline
			})
			if at < 0 || base < 0 {
				b.WriteString(" |")
				continue
			}
			median := rows[base].median()
			fmt.Fprintf(&b, " %s, ×%.3g |", rows[at].spread(), rows[at].median()/median)
			if said := rows[at].goal.said(rows[at].median(), median); goal == "" {
				goal = said
			} else if said != goal {
				_, verdict, _ := strings.Cut(said, ": ")
				goal += ", " + verdict
			}
		}
		fmt.Fprintf(&b, " %s |\n", goal)
	}
	return b.String()
}

// pipelines are the numbers of commands that are sent at once.
var pipelines = []int{16, 64}

// spread returns the median and the largest deviation from it.
func (r row) spread() string {
	median := r.median()
	return fmt.Sprintf("%.3g\u00a0±%.0f%%", median, 100*max(median-r.costs[0], r.costs[len(r.costs)-1]-median)/median)
}

// load says how busy the machine was.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return "Load average: " + fields[2] + "."
	}
	return ""
}

// version returns the name and version of Redis, in two words.
func version(ctx context.Context, redis string) string {
	out, err := exec.CommandContext(ctx, redis, "--version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 3 {
		return "Redis"
	}
	return "Redis " + strings.TrimPrefix(words[2], "v=")
}
