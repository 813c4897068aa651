// Command growth measures the processor time of a hit and of a count, and the memory of a key. It varies the number of
// keys, the number of goroutines and the length of the window, and writes docs/benchmarks-growth.md.
//
// Processor time is the time of the whole process, garbage collection included. Other programs on the machine change it
// only by using the processor's caches.
package main

import (
	"flag"
	"log"
	"os"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
)

const start = 1_700_000_000 // the second of the first hit

func main() {
	log.SetFlags(0)
	log.SetPrefix("growth: ")
	page := flag.String("page", "../docs/benchmarks-growth.md", "the page to write")
	most := flag.Int("most", 10_000_000, "keys at most")
	flag.Parse()
	if err := run(*page, *most); err != nil {
		log.Fatal(err)
	}
}

func run(page string, most int) error {
	var b strings.Builder
	for _, part := range []func(*strings.Builder, int) error{describe, keys, goroutines, windows} {
		if err := part(&b, most); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(b.String()), 0o644)
}

func newEngine() (*engine.Engine, error) {
	return engine.New(engine.Config{Clock: engine.EventClock, Memory: 8 << 30, Retention: engine.MaxWindow})
}
