// Package machine says where and when figures were measured, for the heads of pages, and how much memory is in use.
package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Line is the time, the commit, the processor and the version of Go.
func Line(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	_, model, _ := strings.Cut(string(cpu), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	return fmt.Sprintf("%s, commit %s, %s, %d cores, %s",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), strings.TrimSpace(string(commit)), model, runtime.NumCPU(), runtime.Version()), nil
}

// Heap is the memory in use, after two collections: what a finalizer or a pool
// held on to goes with the second.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
