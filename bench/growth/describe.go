package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// describe is the head of the page: what was measured, and where.
func describe(b *strings.Builder, _ int) error {
	commit, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	_, model, _ := strings.Cut(string(cpu), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	fmt.Fprintf(b, "# What grows with what\n\nWritten by `make bench-growth` (`cd bench && go run ./growth`): do not edit. %s, commit %s, %s, %d cores, %s.\n\n"+
		"All times are processor time of the whole process, garbage collection included, divided by what it did: the median of %d rounds. "+
		"Other programs that run meanwhile take of the caches, and so make the lines of many keys slower. More nodes: [cluster-measurements.md](cluster-measurements.md).\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), strings.TrimSpace(string(commit)), model, runtime.NumCPU(), runtime.Version(), rounds)
	return nil
}
