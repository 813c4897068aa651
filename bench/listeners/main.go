// Command listeners sends the same pipelines in turns to `weir serve --resp` and to redis-server. It measures the
// processor time that each spends per command, and writes docs/benchmarks-listeners.md. It also compares decisions by
// gRPC with an empty gRPC method. It starts the servers as separate processes on loopback. They keep nothing on disk,
// except the one named "weir, durable".
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/weir-counter/weir/bench/machine"
)

func main() {
	log.SetFlags(0)
	weir := flag.String("weir", "../bin/weir", "the weir program")
	redis := flag.String("redis", "redis-server", "the program to compare with")
	commands := flag.Int("commands", 1_000_000, "commands of each round; costly ones are fewer")
	rounds := flag.Int("rounds", 5, "how many times to measure")
	task := flag.String("task", "", "measure tasks of Redis alone whose name has this in it")
	part := flag.String("part", "", "measure redis or grpc alone; empty: both")
	empty := flag.String("empty", "", "serve the empty method of gRPC on this address, to be measured")
	out := flag.String("page", "", "page to write; empty: standard output")
	lines := flag.Bool("lines", false, "write what Redis' tasks cost as lines of Go benchmarks to standard output, in place of a page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *empty != "" {
		if err := serveEmpty(ctx, *empty); err != nil {
			log.Fatal(err)
		}
		return
	}
	var err error
	if *lines {
		err = writeLines(ctx, os.Stdout, *weir, *redis, *task, *commands, *rounds)
	} else {
		err = run(ctx, *weir, *redis, *task, *part, *commands, *rounds, *out)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// writeLines writes a line for each round of each task.
func writeLines(ctx context.Context, w io.Writer, weir, redis, task string, commands, rounds int) error {
	scratch, err := os.MkdirTemp("", "weir-bench-listeners-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	rows, err := measureRESP(ctx, weir, redis, task, scratch, commands, rounds)
	if err != nil {
		return err
	}
	for _, r := range rows {
		for _, cost := range r.costs {
			name := fmt.Sprintf("task=%s/server=%s/command=%s/pipeline=%d", r.workload, r.server, r.command, r.pipeline)
			if _, err := fmt.Fprintf(w, "BenchmarkListeners/%s %d %.3f cpu-us/command\n", strings.ReplaceAll(name, " ", "-"), commands, cost); err != nil {
				return err
			}
		}
	}
	return nil
}

func run(ctx context.Context, weir, redis, task, part string, commands, rounds int, out string) error {
	where, err := machine.Line(ctx)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "weir-bench-listeners-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	before, envoy := "", ""
	if out != "" { // the part that is not measured stays
		text, err := os.ReadFile(out)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		before, envoy, _ = strings.Cut(string(text), envoyTitle)
	}
	if part != "grpc" {
		rows, err := measureRESP(ctx, weir, redis, task, scratch, commands, rounds)
		if err != nil {
			return err
		}
		before = writePage(ctx, where, redis, rows)
	}
	if part != "redis" && task == "" {
		const requests = 200_000
		rows, err := measureGRPC(ctx, weir, scratch, min(commands, requests), rounds)
		if err != nil {
			return err
		}
		envoy = writeGRPC(where, rows)
	}
	page := before + envoyTitle + envoy
	if out == "" {
		_, err := os.Stdout.WriteString(page)
		return err
	}
	return os.WriteFile(out, []byte(page), 0o644)
}

// measureRESP measures each command on each server.
func measureRESP(ctx context.Context, weir, redis, task, scratch string, commands, rounds int) (rows []row, err error) {
	servers := map[string]*server{}
	for name, program := range map[string]func(address string) []string{
		"weir": func(a string) []string {
			return []string{weir, "serve", "--http", "127.0.0.1:0", "--limit-memory", "4GiB", "--log-level", "error", "--ephemeral", "--resp", a}
		},
		"weir, durable": func(a string) []string {
			return []string{weir, "serve", "--http", "127.0.0.1:0", "--log-level", "error", "--data", filepath.Join(scratch, "data"), "--resp", a}
		},
		"redis": redisArgs(redis),
	} {
		s, err := start(ctx, name, program)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		servers[name] = s
	}
	for _, w := range workloads() {
		if !strings.Contains(w.name, task) {
			continue
		}
		for _, pipeline := range pipelines {
			made, err := measure(ctx, servers, w, pipeline, commands, rounds)
			if err != nil {
				return nil, err
			}
			for _, r := range made {
				fmt.Fprintln(os.Stderr, r)
			}
			rows = append(rows, made...)
		}
	}
	return rows, nil
}
