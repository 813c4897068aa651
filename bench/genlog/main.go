// Command genlog writes a made-up access log to the standard output, to
// measure with:
//
//	go run ./bench/genlog -lines 2000000 > access.log
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/weir-counter/weir/internal/replay/accesslog"
)

func main() {
	c := accesslog.Config{Start: time.Date(2025, 11, 3, 0, 0, 0, 0, time.UTC)}
	flag.IntVar(&c.Lines, "lines", 1_000_000, "number of lines")
	flag.Uint64Var(&c.Seed, "seed", 1, "the same seed gives the same log")
	flag.Float64Var(&c.PerSecond, "rate", 50, "lines per second")
	flag.IntVar(&c.Paths, "paths", 20_000, "number of different paths")
	flag.IntVar(&c.Hosts, "hosts", 50_000, "number of different hosts")
	flag.IntVar(&c.LateEvery, "late", 1000, "one line of so many is late")
	flag.Parse()
	if err := accesslog.Write(os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, "genlog:", err)
		os.Exit(1)
	}
}
