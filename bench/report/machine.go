package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// describeMachine writes what was measured and on what, as configuration lines
// of the format of Go benchmarks.
func describeMachine(ctx context.Context, lines io.Writer) error {
	osRelease, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	for _, line := range [][2]string{
		{"date", time.Now().UTC().Format("2006-01-02 15:04 MST")},
		{"commit", firstLine(ctx, "git", "describe", "--always", "--dirty", "--exclude=*")},
		{"processor", fmt.Sprintf("%s, %d cores", after(string(cpu), "model name\t: "), runtime.NumCPU())},
		{"memory", strings.TrimSpace(after(string(memory), "MemTotal:"))},
		{"system", strings.Trim(after(string(osRelease), "PRETTY_NAME="), `"`) + ", Linux " + strings.TrimSpace(string(kernel))},
		{"toolchain", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"xsync", moduleVersion(ctx, "github.com/puzpuzpuz/xsync/v4")},
		{"victoriametrics", moduleVersion(ctx, "github.com/VictoriaMetrics/metrics")},
		{"ratecounter", moduleVersion(ctx, "github.com/paulbellamy/ratecounter")},
		{"awk", firstLine(ctx, "awk", "-W", "version")},
		{"goaccess", firstLine(ctx, "goaccess", "--version")},
	} {
		if _, err := fmt.Fprintf(lines, "%s: %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

// after is the rest of the first line that begins with a prefix.
func after(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

func moduleVersion(ctx context.Context, path string) string {
	return firstLine(ctx, "go", "list", "-m", "-f", "{{.Version}}", path)
}

// firstLine is the first line that a program prints, or why there is none.
func firstLine(ctx context.Context, program string, args ...string) string {
	output, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	line, _, _ := strings.Cut(string(output), "\n")
	return strings.TrimRight(line, ". ")
}
