package main

import (
	"io"
	"strings"
	"text/template"
)

// keyedFloor is the design that a keyed hit is compared with.
const keyedFloor = "xsync.Map+atomic.Int64"

var textbookDesigns = []string{"deque", "ring", "total", "cached", "tiers", "seconds"}

// titles say more than the names of the designs.
var titles = map[string]string{
	"deque":                               "deque",
	"ring":                                "ring",
	"total":                               "running total",
	"cached":                              "cached total",
	"tiers":                               "tiers",
	"seconds":                             "map of seconds",
	"atomic.Int64":                        "atomic.Int64",
	"xsync.Counter":                       "xsync.Counter",
	"VictoriaMetrics.Counter":             "VictoriaMetrics Counter",
	"ratecounter":                         "ratecounter",
	"weir":                                "**weir**",
	"weir-bounds":                         "weir: upper less lower bound",
	"weir.Counter":                        "**weir.Counter**",
	"weir.Engine":                         "**weir.Engine**, one key",
	"weir.Counter.HitAt":                  "**weir.Counter**, HitAt",
	"weir.Counter.Hit":                    "**weir.Counter**, Hit (own clock)",
	"weir.Engine.HitAt":                   "**weir.Engine**, HitAt",
	"weir.Engine.Hit":                     "**weir.Engine**, Hit (own clock)",
	"weir.Engine.HitAt-64k-hits-a-second": "**weir.Engine**, HitAt, 65,536 hits a second",
	"weir.Engine.HitAt-blocks":            "**weir.Engine**, blocks of 64 keys",
	keyedFloor:                            "floor: xsync.Map of atomic.Int64",
	"RWMutex+map+deque":                   "deques in a map with RWMutex",
	"xsync.Map+deque":                     "deques in xsync.Map",
	"weir-gcra":                           "**weir**, gcra",
	"weir-window":                         "**weir**, window",
	"weir-fixed":                          "**weir**, fixed",
	xTimeRate:                             "x/time/rate in xsync.Map",
	"go-limiter":                          "go-limiter",
	"ulule-limiter":                       "ulule/limiter",
	"throttled":                           "throttled, GCRA",
	"xsync.Map+slidingwindow":             "slidingwindow in xsync.Map",
	"empty-handler":                       "empty net/http handler",
	"weir-serve":                          "**weir serve**, durable",
	"weir-serve-ephemeral":                "**weir serve --ephemeral**",
	"weir-replay":                         "**weir replay**, two keys a line",
	"awk":                                 "`awk '{c[$7]++}'`",
	"goaccess":                            "goaccess, all panels",
}

func title(design string) string {
	if t, ok := titles[design]; ok {
		return t
	}
	return design
}

const pageText = `# Benchmarks

Written by ` + "`make bench`" + `: do not edit.

![Five comparisons: shorter is better](pictures/benchmarks.svg)

{{.Glance}}
[All benchmarks](README.md#explanation).

{{.Machine}}

Cells are medians, with the largest deviation if it is above 10 %. All designs of a table run in one process. The
[textbook designs](textbook.md) are under one mutex. *Running total* is a ring with a sum. atomic.Int64, xsync and VictoriaMetrics have no windows.

## Targets

Targets (bench/report/targets.go) are ratios of times, and budgets. HTTP is server CPU.

{{.Targets}}
## A hit on one hot key

Wall time per hit. Time advances by a second every 65,536 hits, unless a design reads the clock.

{{.Hot}}
{{.Processors}}## A count

Nanoseconds, after a week with a hit every second. *Still* repeats the query. *A hit between* adds a hit in the same second before every count,
*a second between* one in the next. Each textbook counter is built for one window; Weir answers all windows from the same memory.

{{.Read}}
## A hit on one of a million keys

Wall time per hit. The floor is a look-up in a concurrent map and an atomic add. Keys follow Zipf's law (1.1). Time advances every 2²⁰ hits.

{{.Keyed}}
## Error

The largest difference between an estimate and the true count, over the queries of one day, with hits in order ([late hits](textbook.md#counters)).
Weir's bounds held in every query.

{{.Error}}
## Memory

Bytes for one more key of 20 characters. Sparse: ten hits in a day. Dense: a hit every second for a week. Every counter answers windows of up to a week.

{{.Memory}}
{{.TenMillion}}
## Hits over HTTP

Server CPU per hit for ` + "`POST /v1/hits`" + `, on two connections: text batches of 1000 for a million keys (Zipf), and JSON requests of one hit for 100,000 keys.

{{.HTTP}}
## A limit per key, a million keys

Wall time per request of 2 goroutines, keys by Zipf's law (1.1), and bytes for one more key of 20 characters that has used its limit. [What each admits at worst](adversary.md).

{{.Allow}}
## Decisions over HTTP

Server CPU per ` + "`POST /v1/allow`" + ` in µs, on two connections. Weir collects a small heap less often than the handler does.

{{.AllowHTTP}}
## A log of a million lines

Whole programs on one file in Apache's combined format. goaccess does more than count: it fills all panels of its report.

{{.Replay}}`

// write writes the page.
func write(w io.Writer, r *results) error {
	return template.Must(template.New("").Parse(pageText)).Execute(w, map[string]any{
		"Machine":    machineLine(r),
		"Glance":     text(r, writeGlance),
		"Targets":    text(r, writeTargets),
		"Hot":        text(r, writeHot),
		"Processors": processors(r),
		"Read":       text(r, writeRead),
		"Keyed":      text(r, writeKeyed),
		"Error":      text(r, writeError),
		"Memory":     text(r, writeMemory),
		"TenMillion": tenMillion(r),
		"HTTP":       text(r, writeHTTP),
		"Replay":     text(r, writeReplay),

		"Allow":     text(r, writeAllow),
		"AllowHTTP": text(r, writeAllowHTTP),
	})
}

func text(r *results, write func(io.Writer, *results)) string {
	var b strings.Builder
	write(&b, r)
	return b.String()
}

// machineLine says when, where and with what was measured.
func machineLine(r *results) string {
	var parts []string
	for _, key := range []string{"date", "commit", "processor", "system", "toolchain", "xsync", "victoriametrics", "ratecounter", "awk", "goaccess"} {
		value := r.machine[key]
		if key == "awk" { // its version alone
			value, _, _ = strings.Cut(value, ", ")
		}
		if value != "" {
			parts = append(parts, strings.TrimSpace(machineWords[key]+" "+value))
		}
	}
	return strings.Join(parts, ", ") + "."
}

// machineWords stand before the values that do not explain themselves.
var machineWords = map[string]string{"commit": "commit", "xsync": "xsync", "victoriametrics": "VictoriaMetrics", "ratecounter": "ratecounter"}
