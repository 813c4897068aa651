// Command sql counts the same hits in SQL as textbooks do, and as Weir does, on Postgres, MariaDB and SQLite, and
// writes docs/benchmarks-sql.md. It starts the database servers itself, from Debian's packages, on loopback, with their
// files in a temporary directory; commits wait for the disk.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/bench/machine"
)

// settings are what a run is to be like.
type settings struct {
	weir    string        // the program
	each    time.Duration // for how long hits are sent in one measurement
	scratch string        // a directory for files
	busy    string        // how busy the machine was when it began
}

func main() {
	log.SetFlags(0)
	cfg := settings{busy: busy()}
	flag.StringVar(&cfg.weir, "weir", "../bin/weir", "the weir program")
	flag.DurationVar(&cfg.each, "time", time.Second, "for how long to send hits in each measurement")
	most := flag.Duration("most", 10*time.Minute, "give up after so long, and write no page")
	only := flag.String("database", "", "measure one alone: Postgres, MariaDB or SQLite")
	figures := flag.Bool("history", false, "print the figures of history in place of the page: a year of a million keys, and what it costs hits")
	keys := flag.Int("keys", 1_000_000, "keys of that year; 0: leave it out")
	active := flag.Int("active", 30, "days of the year on which each of them has hits")
	out := flag.String("page", "", "page to write; empty: standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *figures {
		if err := history(ctx, cfg, *keys, *active); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, *most)
	defer cancel()
	if err := run(ctx, cfg, *only, *out); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		log.Fatalf("the measurements are not done after %v, and there is no page: wait until the machine is less busy, or give more time with -most (%v)", *most, err)
	} else if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, cfg settings, only, out string) error {
	where, err := machine.Line(ctx)
	if err != nil {
		return err
	}
	if err := cfg.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(cfg.scratch)
	var rows []row
	began := time.Now()
	for _, d := range databases(cfg.scratch) {
		if only != "" && d.name != only {
			continue
		}
		more, err := measure(ctx, cfg, d)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	page := writePage(where, cfg, rows, time.Since(began))
	if out == "" {
		_, err := os.Stdout.WriteString(page)
		return err
	}
	return os.WriteFile(out, []byte(page), 0o644)
}

// prepare makes the directory for files.
func (cfg *settings) prepare() (err error) {
	if cfg.weir, err = filepath.Abs(cfg.weir); err != nil {
		return err
	}
	cfg.scratch, err = os.MkdirTemp("", "weir-bench-sql-*")
	return err
}

// load is who sends what.
type load struct {
	keys, writers int
}

var loads = []load{{1, 1}, {1, 64}, {100_000, 8}}

// row is one measurement.
type row struct {
	database, way string
	load
	hits, retries uint64
	took          time.Duration // from the first hit until all are in the database
	cpu, server   time.Duration // of all processes, and of the database's alone
}

// measure measures all ways on one database.
func measure(ctx context.Context, cfg settings, d *database) (rows []row, err error) {
	defer d.close()
	for _, l := range loads {
		for _, w := range ways {
			r, err := textbook(ctx, cfg, d, w, l)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
			log.Print(r)
		}
		for _, weir := range []func(context.Context, settings, *database, load) (row, error){byWriter, throughWeir} {
			r, err := weir(ctx, cfg, d, l)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
			log.Print(r)
		}
	}
	return rows, nil
}
