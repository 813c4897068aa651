// Command cluster measures the cost of counting in one node and in three nodes on this machine. It measures:
//
//   - hits per second over HTTP;
//   - bytes of journal per second, by active keys and flush interval;
//   - the time from a hit on one node until another node counts it.
//
// It prints lines in the format of Go benchmarks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
)

type bench struct {
	ctx    context.Context
	weir   string        // the program
	dir    string        // for data directories
	during time.Duration // of each measurement
	keys   int           // that are active where it is many
	rate   int           // hits per second of the bytes' measurements
	lags   int           // hits whose way is timed
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("cluster: ")
	var b bench
	flag.StringVar(&b.weir, "weir", "../bin/weir", "the weir program (make build)")
	flag.DurationVar(&b.during, "during", 5*time.Second, "time of each measurement")
	flag.IntVar(&b.keys, "keys", 100_000, "active keys, where they are many")
	flag.IntVar(&b.rate, "rate", 50_000, "hits per second, where bytes are measured")
	flag.IntVar(&b.lags, "lags", 500, "hits whose way from node to node is timed")
	flag.Parse()
	var stop context.CancelFunc
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run() (err error) {
	if b.dir, err = os.MkdirTemp("", "weir-bench-cluster-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, size := range []int{1, 3} {
		for _, flushEvery := range []time.Duration{100 * time.Millisecond, time.Second} {
			if err := b.measure(size, flushEvery); err != nil {
				return fmt.Errorf("%d nodes, flushes every %v: %w", size, flushEvery, err)
			}
		}
	}
	return nil
}

// measure starts nodes and makes all measurements on them.
func (b *bench) measure(size int, flushEvery time.Duration) (err error) {
	nodes, err := b.start(size, flushEvery)
	defer func() { err = errors.Join(err, stopAll(nodes)) }()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("nodes=%d/flush=%v", size, flushEvery)
	if size > 1 {
		hits := max(1, b.lags*int(100*time.Millisecond)/int(flushEvery)) // each waits for a flush
		if err := b.lag(name, nodes, hits); err != nil {
			return err
		}
	}
	for _, work := range []struct {
		name string
		keys int
	}{{"1", 1}, {fmt.Sprint(b.keys), b.keys}} {
		if err := b.bytes(name+"/keys="+work.name, nodes, work.keys); err != nil {
			return err
		}
		if flushEvery == 100*time.Millisecond {
			if err := b.throughput(name+"/keys="+work.name, nodes, work.keys); err != nil {
				return err
			}
		}
	}
	return nil
}
