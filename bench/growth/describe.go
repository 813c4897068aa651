package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/weir-counter/weir/bench/machine"
)

// describe is the head of the page: what was measured, and where.
func describe(b *strings.Builder, _ int) error {
	where, err := machine.Line(context.Background())
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "# Benchmarks: more keys, goroutines and longer windows\n\nWritten by `make bench-growth`: do not edit. %s.\n\n"+
		"CPU time of the whole process per operation, garbage collection included: the median of %d rounds. "+
		"Other programs on the machine slow down rows with many keys. For more nodes, see [clusters](cluster-measurements.md).\n\n",
		where, rounds)
	return nil
}
