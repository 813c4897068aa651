// Command http posts text batches of 1000 hits to a `weir serve` that it
// starts, and to a handler that does nothing but read the body, and prints the
// processor time that each server spent per hit in the format of Go
// benchmarks. Both servers are processes of their own, on loopback.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
)

const (
	batchHits   = 1_000
	connections = 2
)

func main() {
	log.SetFlags(0)
	weir := flag.String("weir", "../bin/weir", "the weir program")
	batches := flag.Int("batches", 3_000, "batches of 1000 hits in each round")
	rounds := flag.Int("rounds", 3, "how many times to measure")
	floor := flag.String("floor", "", "only be the server that reads bodies, at this address")
	flag.Parse()
	if *floor != "" {
		log.Fatal(serveFloor(*floor))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, *weir, *batches, *rounds); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context, weir string, batches, rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	floor, err := start(ctx, "empty-handler", self, "-floor")
	if err != nil {
		return err
	}
	defer floor.stop()
	data, err := os.MkdirTemp("", "weir-bench-http-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	serve, err := start(ctx, "weir-serve", weir, "serve", "--data", data, "--http")
	if err != nil {
		return err
	}
	defer serve.stop()
	ephemeral, err := start(ctx, "weir-serve-ephemeral", weir, "serve", "--ephemeral", "--http")
	if err != nil {
		return err
	}
	defer ephemeral.stop()
	servers := []*server{floor, serve, ephemeral}

	for _, form := range forms() {
		bodies := form.bodies()
		for _, s := range servers {
			if err := s.post(ctx, bodies, len(bodies)); err != nil { // makes the keys, fills the pools
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		for range rounds {
			for _, s := range servers {
				used, err := s.cost(ctx, bodies, batches)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				hits := batches * batchHits
				fmt.Printf("BenchmarkHTTP/line=%s/server=%s %d %.4f cpu-us/hit\n",
					form.name, s.name, hits, float64(used.Microseconds())/float64(hits))
			}
		}
	}
	return nil
}
