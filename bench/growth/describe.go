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
	fmt.Fprintf(b, "# What grows with what\n\nWritten by `make bench-growth` (`cd bench && go run ./growth`): do not edit. %s.\n\n"+
		"All times are processor time of the whole process, garbage collection included, divided by what it did: the median of %d rounds. "+
		"Other programs that run meanwhile take of the caches, and so make the lines of many keys slower. More nodes: [cluster-measurements.md](cluster-measurements.md).\n\n",
		where, rounds)
	return nil
}
