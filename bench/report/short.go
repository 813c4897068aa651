package main

import (
	"fmt"
	"io"
	"strings"
)

// barLength is the length of the longer bar of a pair.
const barLength = 30

// compared is a row of the first table: what Weir takes for a thing, and what something else does.
type compared struct {
	what, unit, other string
	weir, others      sample
}

func shortRows(r *results) []compared {
	hot := func(design string) sample { return r.get("Hot/design="+design+"/goroutines=2", "ns/op") }
	count := func(design string) sample { return r.get("Read/window=week/design="+design+"/case=hit", "ns/op") }
	keyed := func(design string) sample { return r.get("Keyed/design="+design+"/goroutines=2", "ns/op") }
	memory := func(design string) sample { return r.get("Memory/traffic=sparse/design="+design, "B/key") }
	return []compared{
		{"a hit on one hot key, 2 goroutines", "ns", "textbook ring", hot("weir.Counter.HitAt"), hot("ring")},
		{"a hit, then a count of a week", "ns", "textbook ring", count("weir.Counter"), count("ring")},
		{"a hit on one of a million keys, in blocks, 2 goroutines", "ns", "xsync.Map and an atomic, no windows", keyed("weir.Engine.HitAt-blocks"), keyed(keyedFloor)},
		{"a request under a limit of 10/s, a million keys, 2 goroutines", "ns", "x/time/rate in an xsync.Map", keyedAllow(r, 10, 2, "weir-gcra"), keyedAllow(r, 10, 2, xTimeRate)},
		{"memory of a key with ten hits a day", "bytes", "deque of (second, count)", memory("weir"), memory("deque")},
	}
}

// writeShort draws a pair of bars for each thing: shorter is better.
func writeShort(w io.Writer, r *results) {
	for _, c := range shortRows(r) {
		if len(c.weir) == 0 || len(c.others) == 0 {
			continue
		}
		longest := max(c.weir.median(), c.others.median())
		fmt.Fprintf(w, "%s, %s\n", c.what, c.unit)
		for _, one := range []struct {
			name string
			s    sample
		}{{"Weir", c.weir}, {c.other, c.others}} {
			length := max(1, int(one.s.median()/longest*barLength+0.5))
			fmt.Fprintf(w, "  %-36s %s %s\n", one.name, strings.Repeat("█", length), number(one.s.median()))
		}
		fmt.Fprintln(w)
	}
}
