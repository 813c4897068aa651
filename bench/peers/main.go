// Command peers asks Weir and other rate limiters for the same decisions, one server after another, with the same
// client, keys and schedule, and writes docs/benchmarks-peers.md. All servers listen on loopback and keep nothing on
// disk. A peer whose program is missing is left out, with a line that says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/weir-counter/weir/bench/machine"
)

// bench is what the flags say.
type bench struct {
	weir, redis, ratelimit, gubernator string
	scratch                            string
	connections, rounds, rate          int
	seconds                            time.Duration
}

func main() {
	log.SetFlags(0)
	var b bench
	flag.StringVar(&b.weir, "weir", "../bin/weir", "the weir program")
	flag.StringVar(&b.redis, "redis", "redis-server", "the redis-server program")
	flag.StringVar(&b.ratelimit, "ratelimit", "../bin/peers/service_cmd", "the program of envoyproxy/ratelimit")
	flag.StringVar(&b.gubernator, "gubernator", "../bin/peers/gubernator", "the program of gubernator")
	flag.IntVar(&b.connections, "connections", 16, "connections, each with one request at a time")
	flag.IntVar(&b.rounds, "rounds", 3, "how many times to measure each server")
	flag.IntVar(&b.rate, "rate", 5000, "requests per second, the same for all servers, at which latencies are compared")
	flag.DurationVar(&b.seconds, "for", 3*time.Second, "how long each measurement takes")
	only := flag.String("only", "", "measure the peers alone whose name has this in it; shared: the limit over two addresses alone")
	page := flag.String("page", "", "page to write; empty: standard output")
	picture := flag.String("picture", "", "picture to draw; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *only, *page, *picture); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run(ctx context.Context, only, page, picture string) (err error) {
	where, err := machine.Line(ctx)
	if err != nil {
		return err
	}
	if b.scratch, err = os.MkdirTemp("", "weir-bench-peers-*"); err != nil {
		return err
	}
	defer os.RemoveAll(b.scratch)
	var measured []*figures
	var missing []string
	all := b.peers()
	for round := range b.rounds {
		for i, p := range all {
			if !strings.Contains(p.name, only) || p.missing {
				continue
			}
			f, err := b.measure(ctx, p)
			if errors.Is(err, os.ErrNotExist) {
				all[i].missing = true
				missing = append(missing, p.name)
				log.Printf("%s is left out: %v", p.name, err)
				continue
			} else if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			f.peer, f.round = p, round
			measured = append(measured, f)
			log.Print(f)
		}
	}
	var shared []sharedFigures
	if only == "" || only == "shared" {
		if shared, err = b.measureShared(ctx); err != nil {
			return err
		}
	}
	text := b.page(where, measured, shared, missing)
	if picture != "" {
		if err := os.WriteFile(picture, draw(median(measured)), 0o644); err != nil {
			return err
		}
	}
	if page == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}
