// Command journal measures the costs and the rates of the journal:
//
//   - hits per second over HTTP, with and without the journal;
//   - the latency of durable hits;
//   - the bytes per entry of a flush;
//   - how long a snapshot locks a partition;
//   - how long a start takes.
//
// It prints lines in the format of Go benchmarks, and writes them to a page.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// bench is what all measurements share.
type bench struct {
	ctx  context.Context
	weir string // the program
	dir  string // for data directories
	out  io.Writer

	small bool // scale is quick
	scale
}

// scale is how much is measured.
type scale struct {
	rounds     int           // how many times each
	batches    int           // of batchHits hits, that are posted
	keys       int           // of the Zipf hits, and in a snapshot
	waits      time.Duration // that durable hits are sent
	flushHits  []int         // hits of a flush
	journalMiB int64         // that a start replays
}

// full takes about seven minutes on two cores. It posts for longer than the interval between two writes of history.
// quick takes a few seconds and only shows that everything runs; its figures mean nothing.
var (
	full  = scale{rounds: 3, batches: 30_000, keys: 1_000_000, waits: 3 * time.Second, flushHits: []int{100, 10_000}, journalMiB: 1024}
	quick = scale{rounds: 1, batches: 50, keys: 20_000, waits: 200 * time.Millisecond, flushHits: []int{100, 1_000}, journalMiB: 4}
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("journal: ")
	b := &bench{scale: full}
	flag.StringVar(&b.weir, "weir", "../bin/weir", "the weir program (make build)")
	page := flag.String("page", "", "the page to write; empty: none")
	only := flag.String("only", "", "measure only these, comma-separated: "+strings.Join(names(), ", "))
	flag.BoolVar(&b.small, "quick", false, "measure very little, to see that all runs to its end")
	fill := flag.String("fill", "", "only fill a journal in this directory, and end without closing it")
	rounds := flag.Int("rounds", 0, "how many times to measure each; 0: 3")
	mib := flag.Int64("journal-mib", 0, "size of the journal that a start replays, in MiB; 0: 1024")
	flag.Parse()
	if b.small {
		b.scale = quick
	}
	b.rounds, b.journalMiB = cmp.Or(*rounds, b.rounds), cmp.Or(*mib, b.journalMiB)
	var stop context.CancelFunc
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *fill != "" {
		if err := b.fillJournal(*fill); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := b.run(*page, *only); err != nil {
		log.Fatal(err)
	}
}

// measurements are all there are, in the order in which they are made.
var measurements = []struct {
	name    string
	measure func(*bench) error
}{
	{"throughput", (*bench).throughput},
	{"durable", (*bench).durable},
	{"flush", (*bench).flushes},
	{"snapshot", (*bench).snapshots},
	{"replay", (*bench).replay},
}

func names() (all []string) {
	for _, m := range measurements {
		all = append(all, m.name)
	}
	return all
}

func (b *bench) run(page, only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "weir-bench-journal-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	chosen := names()
	if only != "" {
		chosen = strings.Split(only, ",")
	}
	for _, name := range chosen {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("no measurement %q: there are %s", name, strings.Join(names(), ", "))
		}
	}
	var lines bytes.Buffer
	b.out = io.MultiWriter(os.Stdout, &lines)
	for _, m := range measurements {
		if !slices.Contains(chosen, m.name) {
			continue
		}
		if err := m.measure(b); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if page == "" {
		return nil
	}
	return writePage(b.ctx, page, lines.String())
}
