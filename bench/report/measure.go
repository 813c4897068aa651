package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// measure runs all benchmarks, one after the other, and writes their lines.
func measure(ctx context.Context, lines io.Writer, weir string, rounds int) (err error) {
	weir, err = filepath.Abs(weir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(weir); err != nil {
		return fmt.Errorf("%w: build it with make build, or name it with -weir", err)
	}
	folder, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := describeMachine(ctx, lines); err != nil {
		return err
	}

	// Everything is built before anything is measured.
	built := func(name string) string { return filepath.Join(folder, name) }
	if err := execute(ctx, lines, "go", "test", "-c", "-o", built("benchmarks"), "."); err != nil {
		return err
	}
	if err := execute(ctx, lines, "go", "test", "-c", "-o", built("accuracy"), "./accuracy"); err != nil {
		return err
	}
	for _, command := range []string{"memory", "sparse", "http", "replaylog", "listeners"} {
		if err := execute(ctx, lines, "go", "build", "-o", built(command), "./"+command); err != nil {
			return err
		}
	}

	// One process has all designs side by side. Several of them in turn, rather
	// than -count, so that a busy spell of the machine meets all designs.
	for range rounds {
		if err := execute(ctx, lines, built("benchmarks"), "-test.run=^$", "-test.bench=Hot|Read", "-test.benchtime=100ms"); err != nil {
			return err
		}
		if err := execute(ctx, lines, built("benchmarks"), "-test.run=^$", "-test.bench=Keyed$", "-test.benchtime=500ms"); err != nil {
			return err
		}
	}
	for range (rounds + 1) / 2 { // each of its designs has a million keys to begin with
		if err := execute(ctx, lines, built("benchmarks"), "-test.run=^$", "-test.bench=KeyedAllow$", "-test.benchtime=300ms"); err != nil {
			return err
		}
	}
	if err := executeIn(ctx, "accuracy", lines, built("accuracy"), "-test.run=TestError|TestWeirBounds", "-test.v", "-designs"); err != nil {
		return err
	}
	for _, command := range [][]string{{"memory"}, {"sparse"}, {"http", "-weir", weir}, {"replaylog", "-weir", weir}, {"listeners", "-weir", weir, "-lines", "-task", "minute", "-commands", "300000"}} {
		if err := execute(ctx, lines, built(command[0]), command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, lines io.Writer, program string, args ...string) error {
	return executeIn(ctx, ".", lines, program, args...)
}

func executeIn(ctx context.Context, folder string, lines io.Writer, program string, args ...string) error {
	process := exec.CommandContext(ctx, program, args...)
	process.Dir, process.Stdout, process.Stderr = folder, lines, os.Stderr
	if err := process.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return nil
}
