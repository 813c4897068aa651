package main

import (
	"fmt"
	"io"
	"slices"
)

// target is a number that the project has set itself.
type target struct {
	what     string
	measured sample
	limit    float64
	atLeast  bool // the limit is a lower one
	unit     string
}

func (t target) limitText() string {
	sign := "≤"
	if t.atLeast {
		sign = "≥"
	}
	return sign + " " + number(t.limit) + t.unit
}

func (t target) reached() bool {
	if len(t.measured) == 0 {
		return false
	}
	return t.measured.median() == t.limit || t.measured.median() > t.limit == t.atLeast
}

func targets(r *results) []target {
	var all []target
	hot := func(design string, goroutines int) sample {
		return r.get(fmt.Sprintf("Hot/design=%s/goroutines=%d", design, goroutines), "ns/op")
	}
	for _, weir := range []string{"weir.Counter.HitAt"} { // as the textbook's: one counter, no key
		fastest := fastestTextbook(hot)
		all = append(all,
			target{what: weir + ", 2 goroutines, to an atomic add", measured: hot(weir, 2).over(hot("atomic.Int64", 2)), limit: 0.6},
			target{what: weir + ", 2 goroutines, to the fastest textbook design, " + fastest, measured: hot(weir, 2).over(hot(fastest, 2)), limit: 0.5},
			target{what: weir + ", 1 goroutine, to an atomic add", measured: hot(weir, 1).over(hot("atomic.Int64", 1)), limit: 2})
	}
	all = append(all, target{what: "weir.Counter.Hit, 1 goroutine, to an atomic add", measured: hot("weir.Counter.Hit", 1).over(hot("atomic.Int64", 1)), limit: 2.5})
	for _, weir := range []string{"weir.Counter"} {
		read := func(design, name string) sample {
			return r.get("Read/window=300s/design="+design+"/case="+name, "ns/op")
		}
		after := func(design, name string) sample { return read(design, name).less(read(design, name+"-alone")) }
		all = append(all,
			target{what: weir + ", count, still, to the running total", measured: read(weir, "still").over(read("total", "still")), limit: 1},
			target{what: weir + ", count after a hit, to the running total", measured: after(weir, "hit").over(after("total", "hit")), limit: 1},
			target{what: weir + ", count after a new second's hit, to the running total", measured: after(weir, "second").over(after("total", "second")), limit: 1.5})
	}
	all = append(all, target{what: "the slowest count of Weir", measured: slowestRead(r), limit: 1_000, unit: " ns"})
	for _, weir := range []string{"weir.Engine.HitAt", "weir.Engine.Hit", "weir.Engine.HitAt-blocks"} {
		limits := [...]float64{1.3, 1.2}
		if weir == "weir.Engine.HitAt-blocks" {
			limits = [...]float64{1, 1}
		}
		for goroutines := 1; goroutines <= 2; goroutines++ {
			keyed := func(design string) sample {
				return r.get(fmt.Sprintf("Keyed/design=%s/goroutines=%d", design, goroutines), "ns/op")
			}
			all = append(all, target{what: fmt.Sprintf("%s, %s, to the floor", weir, plural(goroutines)), measured: keyed(weir).over(keyed(keyedFloor)), limit: limits[goroutines-1]})
		}
	}
	replay := func(program string) sample { return r.get("Replay/program="+program, "ns/op") }
	all = append(all, limitTargets(r)...)
	return append(all,
		target{what: "memory of a sparse key", measured: r.get("Memory/traffic=sparse/design=weir", "B/key"), limit: 150, unit: " bytes"},
		target{what: "memory of a dense key", measured: r.get("Memory/traffic=dense/design=weir", "B/key").times(1. / 1024), limit: 24, unit: " KiB"},
		target{what: "peak memory, ten million sparse keys", measured: r.get("TenMillion/keys=10000000", "peak-bytes").times(1. / (1 << 30)), limit: 2, unit: " GiB"},
		target{what: "HTTP hit, lines `key`", measured: r.get("HTTP/line=key/server=weir-serve", "cpu-us/hit"), limit: 0.2, unit: " µs"},
		target{what: "HTTP hit, lines `key n at`", measured: r.get("HTTP/line=key+n+at/server=weir-serve", "cpu-us/hit"), limit: 0.2, unit: " µs"},
		target{what: "HTTP request of one hit, to an empty handler", measured: r.get("OneHit/server=weir-serve", "cpu-us/hit").over(r.get("OneHit/server=empty-handler", "cpu-us/hit")), limit: 1.15},
		target{what: "goaccess to `weir replay`", measured: replay("goaccess").over(replay("weir-replay")), limit: 10, atLeast: true},
		target{what: "`weir replay` to awk", measured: replay("weir-replay").over(replay("awk")), limit: 2.5},
	)
}

func plural(goroutines int) string {
	if goroutines == 1 {
		return "1 goroutine"
	}
	return fmt.Sprint(goroutines, " goroutines")
}

func fastestTextbook(hot func(design string, goroutines int) sample) string {
	fastest := ""
	for _, design := range textbookDesigns {
		if s := hot(design, 2); len(s) > 0 && (fastest == "" || s.median() < hot(fastest, 2).median()) {
			fastest = design
		}
	}
	return fastest
}

// slowestRead is the sample of the count, among all of Weir's, with the
// largest median.
func slowestRead(r *results) sample {
	var reads []sample
	for _, window := range readWindows {
		for _, weir := range []string{"weir.Counter", "weir.Engine"} {
			for _, c := range readCases {
				if s := r.get("Read/window="+window.name+"/design="+weir+"/case="+c.name, "ns/op"); len(s) > 0 {
					reads = append(reads, s)
				}
			}
		}
	}
	if len(reads) == 0 {
		return nil
	}
	return slices.MaxFunc(reads, func(a, b sample) int { return int(a.median() - b.median()) })
}

// writeTargets writes how many targets are reached, and a table of the others.
func writeTargets(w io.Writer, r *results) {
	reached, all := 0, targets(r)
	for _, t := range all {
		if t.reached() {
			reached++
		}
	}
	if reached == len(all) {
		fmt.Fprintln(w, "All are reached.")
		return
	}
	fmt.Fprintf(w, "%d of %d reached; not these:\n\n", reached, len(all))
	header(w, "what", "measured", "target")
	for _, t := range all {
		unit := t.unit
		if len(t.measured) == 0 {
			unit = ""
		}
		if !t.reached() {
			row(w, t.what, t.measured.String()+unit, t.limitText())
		}
	}
}
