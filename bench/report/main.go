// Command report runs every benchmark and writes docs/benchmarks.md, with a picture of its first table. It prints the
// measured lines to standard output as they come, in the format of Go benchmarks. With -load it writes the page from
// such lines and measures nothing.
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

func main() {
	log.SetFlags(0)
	log.SetPrefix("report: ")
	out := flag.String("out", "../docs/benchmarks.md", "the page to write")
	picture := flag.String("picture", "../docs/pictures/benchmarks.svg", "the picture to draw of the page's first table")
	draw := flag.Bool("draw", false, "draw the picture of the page that is there, and measure nothing")
	load := flag.String("load", "", "write the page from the lines in this file, and measure nothing")
	weir := flag.String("weir", "../bin/weir", "the weir program (make build)")
	rounds := flag.Int("rounds", 6, "how many times to run the Go benchmarks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if !*draw {
		err = run(ctx, *out, *load, *weir, *rounds)
	}
	if err == nil {
		err = drawPicture(*out, *picture)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out, load, weir string, rounds int) (err error) {
	var lines io.Reader
	if load != "" {
		file, err := os.Open(load)
		if err != nil {
			return err
		}
		defer file.Close()
		lines = file
	} else {
		var measured bytes.Buffer
		if err := measure(ctx, io.MultiWriter(os.Stdout, &measured), weir, rounds); err != nil {
			return err
		}
		lines = &measured
	}
	results, err := parse(lines)
	if err != nil {
		return err
	}
	page, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(write(page, results), page.Close())
}
