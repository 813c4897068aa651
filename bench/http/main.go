// Command http sends three kinds of requests to a `weir serve` that it starts: text batches of 1000 hits, single hits,
// and decisions of limits. It sends the same to a handler that only reads the body. It prints the processor time of
// each server per hit and per decision, in the format of Go benchmarks. The servers are separate processes on loopback.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
)

const (
	batchHits   = 1_000
	connections = 2
)

func main() {
	log.SetFlags(0)
	weir := flag.String("weir", "../bin/weir", "the weir program")
	batches := flag.Int("batches", 3_000, "batches of 1000 hits in each round; 0 leaves them out")
	single := flag.Int("single", 100_000, "requests of one hit in each round; 0 leaves them out")
	decisions := flag.Int("decisions", 100_000, "decisions in each round; 0 leaves them out")
	rounds := flag.Int("rounds", 3, "how many times to measure")
	floor := flag.String("floor", "", "only be the server that reads bodies, at this address")
	flag.Parse()
	if *floor != "" {
		log.Fatal(serveFloor(*floor))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, *weir, *batches, *single, *decisions, *rounds); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context, weir string, batches, single, decisions, rounds int) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "weir-bench-http-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	policies := filepath.Join(scratch, "policies.yaml")
	if err := os.WriteFile(policies, []byte(limitPolicies), 0o600); err != nil {
		return err
	}
	var servers []*server
	for _, program := range []struct {
		name string
		args []string
	}{
		{"empty-handler", []string{self, "-floor"}},
		{"weir-serve", []string{weir, "serve", "--policy", policies, "--data", filepath.Join(scratch, "data"), "--http"}},
		{"weir-serve-ephemeral", []string{weir, "serve", "--policy", policies, "--ephemeral", "--http"}},
	} {
		s, err := start(ctx, program.name, program.args[0], program.args[1:]...)
		if err != nil {
			return err
		}
		defer s.stop()
		servers = append(servers, s)
	}
	if batches > 0 {
		for _, form := range forms() {
			if err := compare(ctx, servers, form.load(), batches, rounds, "HTTP/line="+form.name, batchHits, "cpu-us/hit"); err != nil {
				return err
			}
		}
	}
	if single > 0 {
		if err := compare(ctx, servers, oneHit(), single, rounds, "OneHit", 1, "cpu-us/hit"); err != nil {
			return err
		}
	}
	if decisions > 0 {
		for _, ask := range asks() {
			if err := compare(ctx, servers, ask.load(), decisions, rounds, "Allow/ask="+ask.name, 1, "cpu-us/decision"); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare measures each server in turn, and prints the time for each of the things that
// a request has.
func compare(ctx context.Context, servers []*server, l load, requests, rounds int, name string, things int, unit string) error {
	for _, s := range servers {
		if err := s.post(ctx, l, len(l.bodies)); err != nil { // makes the keys, fills the pools
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for range rounds {
		for _, s := range servers {
			used, err := s.cost(ctx, l, requests)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			n := requests * things
			fmt.Printf("Benchmark%s/server=%s %d %.4f %s\n", name, s.name, n, float64(used.Microseconds())/float64(n), unit)
		}
	}
	return nil
}
