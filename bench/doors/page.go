package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// writePage writes the tables. where is of machine.Line.
func writePage(ctx context.Context, where, redis string, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks of the doors

Written by `+"`make bench-doors`"+`. %s, %s.

Processor time of the server for one command, in microseconds, the network's part in the kernel included, from %d connections that send -P commands at once. Servers and senders
share the machine; the servers are measured in one run. Keys follow Zipf's law (exponent 1.1). Redis keeps nothing on disk; Weir neither, but for the rows that are durable, which
keep hits in the journal. Ratio is that of the medians to Redis at the same task. %s

`, where, version(ctx, redis), connections, load())
	b.WriteString("| task | server | command | -P | median | least | most | ratio | goal |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	base := 0.0
	for _, r := range rows {
		if r.server == "redis" { // the first of each task
			base = r.median()
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %d | %.2f | %.2f | %.2f | %.2f | %s |\n", r.workload, r.server, r.command, r.pipeline, r.median(), r.costs[0], r.costs[len(r.costs)-1], r.median()/base, r.goal.said(r.median(), base))
	}
	return b.String()
}

// load says how busy the machine was.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return "In the 15 minutes before the end, " + fields[2] + " threads wanted a core at a time."
	}
	return ""
}

// version is that of Redis, in two words.
func version(ctx context.Context, redis string) string {
	out, err := exec.CommandContext(ctx, redis, "--version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 3 {
		return "Redis"
	}
	return "Redis " + strings.TrimPrefix(words[2], "v=")
}
