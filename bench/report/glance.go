package main

import (
	"fmt"
	"io"
)

// compared is a row of the first table: what Weir takes for a thing, and what something else does.
type compared struct {
	what, unit, other string
	weir, others      sample
}

func glanceRows(r *results) []compared {
	hot := func(design string) sample { return r.get("Hot/design="+design+"/goroutines=2", "ns/op") }
	count := func(design string) sample { return r.get("Read/window=week/design="+design+"/case=hit", "ns/op") }
	listener := func(task, server, command string) sample {
		return r.get("Listeners/task="+task+"/server="+server+"/command="+command+"/pipeline=16", "cpu-us/command")
	}
	const (
		sum   = "ask-for-the-last-5-minutes"
		limit = "limit-to-100-in-a-minute"
	)
	return []compared{
		{"a hit on one hot key, 2 goroutines", "ns", "textbook: ring of seconds", hot("weir.Counter.HitAt"), hot("ring")},
		{"a hit, then a count of a week", "ns", "textbook: ring of seconds", count("weir.Counter"), count("ring")},
		{"a request under a limit, a million keys, 2 goroutines", "ns", "x/time/rate in a concurrent map", keyedAllow(r, 10, 2, "weir-gcra"), keyedAllow(r, 10, 2, xTimeRate)},
		{"a request under a limit, over RESP: CPU", "µs", "Redis: script on a sorted set", listener(limit, "weir", "CL.THROTTLE-99-100-60"), listener(limit, "redis", "EVAL:-log-in-a-sorted-set")},
		{"a count of 5 minutes, over RESP: CPU", "µs", "Redis: script on a hash of seconds", listener(sum, "weir", "COUNT-5m"), listener(sum, "redis", "EVAL:-sum-of-a-hash-of-300-seconds")},
	}
}

// glanceHead begins the table that the picture is drawn from.
const glanceHead = "| medians | Weir | other | |\n|---|---|---|---|\n"

// writeGlance writes what was measured of it.
func writeGlance(w io.Writer, r *results) {
	fmt.Fprint(w, glanceHead)
	for _, c := range glanceRows(r) {
		if len(c.weir) == 0 || len(c.others) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s %s | %s %s | %s |\n", c.what, number(c.weir.median()), c.unit, number(c.others.median()), c.unit, c.other)
	}
}
