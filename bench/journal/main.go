// Command journal measures what the journal costs and gives: hits per second over
// HTTP with and without it, the wait of durable hits, bytes per entry of a
// flush, how long a snapshot locks a partition, and how long a start takes. It
// prints lines in the format of Go benchmarks, and writes them to a page.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
)

// bench is what all measurements share.
type bench struct {
	ctx    context.Context
	weir   string // the program
	dir    string // for data directories
	rounds int
	out    io.Writer
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("journal: ")
	weir := flag.String("weir", "../bin/weir", "the weir program (make build)")
	page := flag.String("page", "", "the page to write; empty: none")
	rounds := flag.Int("rounds", 3, "how many times to measure each")
	mib := flag.Int64("journal-mib", 1024, "size of the journal that a start replays, in MiB")
	fill := flag.String("fill", "", "only fill a journal in this directory, and end without closing it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *fill != "" {
		if err := fillJournal(ctx, *fill, *mib<<20); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(ctx, *weir, *page, *rounds, *mib); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, weir, page string, rounds int, mib int64) (err error) {
	dir, err := os.MkdirTemp("", "weir-bench-journal-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var lines bytes.Buffer
	b := &bench{ctx, weir, dir, rounds, io.MultiWriter(os.Stdout, &lines)}
	for _, measure := range []func() error{
		b.throughput, b.durable, b.flushes, b.keys, func() error { return b.replay(mib) },
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	if page == "" {
		return nil
	}
	return writePage(ctx, page, lines.String())
}
