package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

var readWindows = []struct{ name, title string }{{"300s", "300 s"}, {"week", "a week"}, {"1e9s", "10⁹ s"}}

var readCases = []struct{ name, title string }{{"still", "still"}, {"hit", "a hit between"}, {"second", "a second between"}}

// elsewhere are textbook designs that only docs/textbook.md shows.
var elsewhere = []string{"cached", "seconds"}

// designs returns the values of a key in the names that begin with a prefix, in the order in which they ran.
func (r *results) designs(prefix, key string) (designs []string) {
	seen := map[string]bool{}
	for _, name := range r.names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for part := range strings.SplitSeq(name, "/") {
			if design, ok := strings.CutPrefix(part, key+"="); ok && !seen[design] && !slices.Contains(elsewhere, design) {
				seen[design] = true
				designs = append(designs, design)
			}
		}
	}
	return designs
}

func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

func header(w io.Writer, cells ...string) {
	row(w, cells...)
	fmt.Fprintln(w, strings.Repeat("|---", len(cells))+"|")
}

func writeHot(w io.Writer, r *results) { writeHits(w, r, "Hot/") }

func writeKeyed(w io.Writer, r *results) { writeHits(w, r, "Keyed/") }

func writeHits(w io.Writer, r *results, prefix string) {
	header(w, "design", "1 goroutine, ns", "2 goroutines, ns")
	for _, design := range r.designs(prefix, "design") {
		cells := []string{title(design)}
		for goroutines := 1; goroutines <= 2; goroutines++ {
			cells = append(cells, r.get(fmt.Sprintf("%sdesign=%s/goroutines=%d", prefix, design, goroutines), "ns/op").String())
		}
		row(w, cells...)
	}
}

func writeRead(w io.Writer, r *results) {
	for i, window := range readWindows[:2] { // docs/benchmarks-growth.md has longer ones
		if i > 0 {
			fmt.Fprintln(w)
		}
		titles := []string{"count of " + window.title}
		for _, c := range readCases {
			titles = append(titles, c.title)
		}
		header(w, titles...)
		prefix := "Read/window=" + window.name + "/"
		for _, design := range r.designs(prefix, "design") {
			cells := []string{title(design)}
			for _, c := range readCases {
				cells = append(cells, r.get(prefix+"design="+design+"/case="+c.name, "ns/op").String())
			}
			row(w, cells...)
		}
	}
}

// processors says so if two goroutines did not have two processors.
func processors(r *results) string {
	got := r.get("Hot/design=atomic.Int64/goroutines=2", "processors")
	if len(got) == 0 || got.median() >= 1.8 {
		return ""
	}
	return fmt.Sprintf("**Other programs were running: 2 goroutines had %s processors and show no contention, repeat the run.**\n\n", got)
}

func writeError(w io.Writer, r *results) {
	traces := map[string]string{"generated": "Generated day with bursts", "nasa": "NASA's web server, 13 July 1995"}
	for _, trace := range r.designs("Error/", "trace") {
		prefix := "Error/trace=" + trace + "/order=in-time/"                                                          // docs/textbook.md has late hits
		windows := slices.DeleteFunc(r.designs(prefix, "window"), func(window string) bool { return window == "1m" }) // as 10s
		fmt.Fprintf(w, "%s:\n\n", traces[trace])
		header(w, append([]string{"design"}, windows...)...)
		truths := []string{"*mean true count*"}
		for _, window := range windows {
			truths = append(truths, hits(r.get(prefix+"design=weir/window="+window, "truth-hits")))
		}
		var exact []string
		for _, design := range r.designs(prefix, "design") {
			cells, wrong := []string{title(design)}, false
			for _, window := range windows {
				largest := r.get(prefix+"design="+design+"/window="+window, "largest-hits")
				wrong = wrong || len(largest) > 0 && largest.median() > 0
				cells = append(cells, hits(largest))
			}
			if wrong {
				row(w, cells...)
			} else {
				exact = append(exact, title(design))
			}
		}
		row(w, truths...)
		if len(exact) > 0 {
			fmt.Fprintf(w, "\nExact in every query: %s.\n", strings.Join(exact, ", "))
		}
		fmt.Fprintln(w)
	}
}

// hits writes a whole number of them.
func hits(s sample) string {
	if len(s) == 0 {
		return "—"
	}
	return whole(s.median())
}

func writeMemory(w io.Writer, r *results) {
	header(w, "design", "sparse, bytes", "dense, KiB")
	for _, design := range r.designs("Memory/", "design") {
		get := func(traffic string) sample { return r.get("Memory/traffic="+traffic+"/design="+design, "B/key") }
		row(w, title(design), get("sparse").String(), get("dense").times(1./1024).String())
	}
}

func tenMillion(r *results) string {
	const name = "TenMillion/keys=10000000"
	peak := r.get(name, "peak-bytes")
	if len(peak) == 0 {
		return "Ten million sparse keys were not measured.\n"
	}
	gib := func(unit string) string { return number(r.get(name, unit).median() / (1 << 30)) }
	return fmt.Sprintf("Ten million sparse keys and a hundred million hits in one engine, with the settings of `weir serve --memory 1280MiB`: "+
		"%s GiB resident at the peak, %s GiB at the end, of which the engine counts %s GiB. A hit takes %s ns with two goroutines. "+
		"No key was evicted.\n",
		gib("peak-bytes"), gib("resident-bytes"), gib("engine-bytes"), number(r.get(name, "ns/op").median()))
}

func writeHTTP(w io.Writer, r *results) {
	header(w, "server", "`key`, µs per hit", "`key n at`, µs per hit", "one hit a request, µs")
	for _, server := range r.designs("HTTP/", "server") {
		row(w, title(server),
			r.get("HTTP/line=key/server="+server, "cpu-us/hit").String(),
			r.get("HTTP/line=key+n+at/server="+server, "cpu-us/hit").String(),
			r.get("OneHit/server="+server, "cpu-us/hit").String())
	}
}

func writeReplay(w io.Writer, r *results) {
	header(w, "program", "runs", "time, s", "processor time, s", "time × awk")
	programs := r.designs("Replay/", "program")
	get := func(program, unit string) sample { return r.get("Replay/program="+program, unit) }
	for _, program := range programs {
		took, used := get(program, "ns/op"), get(program, "cpu-ns/op")
		row(w, title(program), fmt.Sprint(len(took)), took.times(1e-3).String(), used.times(1e-3).String(), took.over(get("awk", "ns/op")).String())
	}
	if len(get("goaccess", "ns/op")) == 0 {
		fmt.Fprintln(w, "\ngoaccess was not measured: it is not installed, and could not be (apt-get install goaccess).")
	}
}
