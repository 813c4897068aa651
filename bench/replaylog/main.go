// Command replaylog times whole programs on one access log of a million lines,
// which it writes first: weir replay with two key templates, awk, goaccess. It
// prints the times per line in the format of Go benchmarks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/bench/traffic"
)

// program is a command line that reads the log.
type program struct {
	name  string
	every int      // run in every n-th round
	args  []string // the last is the log
}

func programs(weir, logFile, folder string) []program {
	return []program{
		{"weir-replay", 1, []string{weir, "replay", "--key", "url:{path}", "--key", "host:{host}", logFile}},
		{"awk", 1, []string{"awk", "{c[$7]++}", logFile}},
		{"goaccess", 3, []string{"goaccess", "--no-global-config", "--no-progress", "--log-format=COMBINED",
			"--output=" + filepath.Join(folder, "report.json"), logFile}},
	}
}

func main() {
	log.SetFlags(0)
	weir := flag.String("weir", "../bin/weir", "the weir program")
	lines := flag.Int("lines", 1_000_000, "lines of the log")
	rounds := flag.Int("rounds", 6, "how many times to run each program; the slow goaccess runs in every third")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, *weir, *lines, *rounds); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context, weir string, lines, rounds int) (err error) {
	folder, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	logFile := filepath.Join(folder, "access.log")
	if err := writeLog(logFile, lines); err != nil {
		return err
	}
	for round := range rounds { // in turns, so that a busy spell of the machine meets all
		for _, p := range programs(weir, logFile, folder) {
			if round%p.every != 0 {
				continue
			}
			if _, err := exec.LookPath(p.args[0]); p.name == "goaccess" && err != nil {
				fmt.Fprintln(os.Stderr, "replaylog: goaccess is not installed (apt-get install goaccess): leaving it out")
				continue
			}
			took, used, err := p.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Printf("BenchmarkReplay/program=%s %d %.1f ns/op %.1f cpu-ns/op\n",
				p.name, lines, perLine(took, lines), perLine(used, lines))
		}
	}
	return nil
}

func perLine(d time.Duration, lines int) float64 { return float64(d.Nanoseconds()) / float64(lines) }

// run is the time from start to exit, and the processor time within.
func (p program) run(ctx context.Context) (took, used time.Duration, err error) {
	process := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	process.Stderr = os.Stderr
	start := time.Now()
	if err := process.Run(); err != nil {
		return 0, 0, err
	}
	took = time.Since(start)
	return took, process.ProcessState.UserTime() + process.ProcessState.SystemTime(), nil
}

func writeLog(path string, lines int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(traffic.WriteLog(file, lines), file.Close())
}
