// Command adversary searches, for each rate limiter, the schedule of requests that makes it admit the most in any
// period, and writes docs/adversary.md. The search is a test, because libraries that read the clock themselves have
// virtual time only in testing/synctest. The command runs that test and writes the page from its results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("adversary: ")
	out := flag.String("out", "../docs/adversary.md", "the page to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out string) error {
	results, err := search(ctx)
	if err != nil {
		return err
	}
	for i, r := range results {
		if results[i].Version, err = version(ctx, r.Module); err != nil {
			return err
		}
	}
	page, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(write(page, runtime.Version(), results), page.Close())
}

// search runs the test, which must pass.
func search(ctx context.Context) (results []result, err error) {
	folder, err := os.MkdirTemp("", "weir-adversary-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "results.json")
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-run=^TestAdversary$",
		"github.com/weir-counter/weir/bench/adversary", "-args", "-results="+file)
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	if err := test.Run(); err != nil {
		return nil, fmt.Errorf("the search, to be run in bench/: %w", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return results, json.Unmarshal(data, &results)
}

// version returns the version of a module in go.mod. For Weir itself, module and version are "".
func version(ctx context.Context, module string) (string, error) {
	if module == "" {
		return "", nil
	}
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("the version of %s: %w", module, err)
	}
	return strings.TrimSpace(string(output)), nil
}
