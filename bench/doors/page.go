package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// writePage writes the tables.
func writePage(ctx context.Context, redis string, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks of the doors

Written by `+"`make bench-doors`"+`. %s, commit %s, %d cores, %s, %s.

Processor time of the server for one command, in microseconds, the network's part in the kernel included, from %d connections that send -P commands at once. Servers and senders
share the machine; the servers are measured in one run. Keys follow Zipf's law (exponent 1.1). Redis keeps nothing on disk; Weir neither, but for the rows that are durable, which
keep hits in the journal.

`, time.Now().UTC().Format("2006-01-02 15:04 MST"), output(ctx, "git", "describe", "--always", "--exclude=*"), runtime.NumCPU(), runtime.Version(), version(ctx, redis), connections)
	b.WriteString("| task | server | command | -P | median | least | most | goal |\n| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n")
	for _, r := range rows {
		goal := r.goal
		if r.server == "redis" {
			goal = ""
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %d | %.2f | %.2f | %.2f | %s |\n", r.workload, r.server, r.command, r.pipeline, r.median(), r.costs[0], r.costs[len(r.costs)-1], goal)
	}
	return b.String()
}

// version is that of Redis, in two words.
func version(ctx context.Context, redis string) string {
	words := strings.Fields(output(ctx, redis, "--version"))
	if len(words) < 3 {
		return "Redis"
	}
	return "Redis " + strings.TrimPrefix(words[2], "v=")
}

func output(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
