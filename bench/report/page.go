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
	"deque":                               "deque of (second, count)",
	"ring":                                "ring of seconds (mod 300)",
	"total":                               "ring with running total",
	"cached":                              "running total with query cache",
	"tiers":                               "300 × 1 s + 48 × 30 min + 14 × 12 h",
	"seconds":                             "map of seconds",
	"atomic.Int64":                        "one atomic.Int64 (no windows)",
	"xsync.Counter":                       "xsync.Counter (no windows)",
	"VictoriaMetrics.Counter":             "VictoriaMetrics Counter (no windows)",
	"ratecounter":                         "ratecounter (20 slots, wall clock)",
	"weir":                                "**weir**",
	"weir-bounds":                         "weir: upper bound less lower bound",
	"weir.Counter":                        "**weir.Counter**",
	"weir.Engine":                         "**weir.Engine**, one key",
	"weir.Counter.HitAt":                  "**weir.Counter**, HitAt",
	"weir.Counter.Hit":                    "**weir.Counter**, Hit (own clock)",
	"weir.Engine.HitAt":                   "**weir.Engine**, HitAt",
	"weir.Engine.Hit":                     "**weir.Engine**, Hit (own clock)",
	"weir.Engine.HitAt-64k-hits-a-second": "**weir.Engine**, HitAt, time moves on every 65,536 hits",
	"weir.Engine.HitAt-blocks":            "**weir.Engine**, Expect of 64 keys and HitExpected of each",
	keyedFloor:                            "xsync.Map and an atomic.Int64 each (no windows): the floor",
	"RWMutex+map+deque":                   "map under a RWMutex, a deque each",
	"xsync.Map+deque":                     "xsync.Map, a deque each",
	"weir-gcra":                           "**weir**, gcra",
	"weir-window":                         "**weir**, window",
	"weir-fixed":                          "**weir**, fixed",
	xTimeRate:                             "xsync.Map, an x/time/rate limiter each",
	"go-limiter":                          "go-limiter",
	"ulule-limiter":                       "ulule/limiter",
	"throttled":                           "throttled, GCRA",
	"xsync.Map+slidingwindow":             "xsync.Map, a RussellLuo/slidingwindow each",
	"empty-handler":                       "net/http, a handler that reads the body",
	"weir-serve":                          "**weir serve**, durable",
	"weir-serve-ephemeral":                "**weir serve --ephemeral**",
	"weir-replay":                         "**weir replay**, keys `url:{path}` and `host:{host}`",
	"awk":                                 "`awk '{c[$7]++}'`",
	"goaccess":                            "goaccess, all its panels, to JSON",
}

func title(design string) string {
	if t, ok := titles[design]; ok {
		return t
	}
	return design
}

const pageText = `# Benchmarks

Written by ` + "`make bench`" + ` (` + "`cd bench && go run ./report`" + `): do not edit.

![Five comparisons: shorter is better](pictures/benchmarks.svg)

{{.Glance}}
All commands beside Redis: [benchmarks-doors.md](benchmarks-doors.md); what grows with keys, goroutines and windows:
[benchmarks-growth.md](benchmarks-growth.md).

| | |
| --- | --- |
{{range .Machine}}| {{index . 0}} | {{index . 1}} |
{{end}}
Every cell is the median of the rounds, and in brackets the smallest and the largest. All designs of a table ran in the same
process, one after the other, in every round; ratios are taken round by round. The textbook designs (bench/textbook) are
written to be as fast as each can be, under one mutex.

## Targets

Ratios are Weir's time to the other's.

{{.Targets}}
## A hit on one hot key

Nanoseconds of wall time per hit, and the ratio to one atomic add. The time of a hit is given, and moves on by a second every
65,536 hits; those with their own clock, and ratecounter, look at the time themselves.

{{.Hot}}
{{.Processors}}
## A count

Nanoseconds, after a week with a hit every second. *Still* asks the same again and again. *A hit between* puts a hit in the
same second before every count, *a second between* moves time on by a second and puts a hit there; both are timed together,
and the hit alone beside. Every textbook counter is made for the window that it is asked for; Weir answers all windows from the same
memory. ratecounter has one window, a twentieth of which is in doubt.

{{.Read}}
{{.ReadLost}}
## A hit on one of a million keys

Nanoseconds of wall time per hit, and the ratio to the floor: look the key up in a concurrent map and add 1 to its counter of
all time. Keys follow Zipf's law (1.1) and all exist before. Time moves on every 2²⁰ hits where nothing else is said. A ring of
300 seconds for each of a million keys would take 4.8 GB and is left out.

{{.Keyed}}
## Error

The difference from the true count in hits, largest / mean, over the questions of one day. Each counter is made for the window
that it is asked for: the designs that keep every second are exact and pay for it below. *Late* is the same day with the
hits of each minute in random order, as some access logs have them. Weir is exact up to 300 s; beyond, its error lies in one
edge slot of at most 1 % of the window, which weighs more where a burst falls into it. Every answer of Weir carries bounds:
they held in every question of this run, and their distance stands in a row of its own.

{{.Error}}## Memory

Of one more key, its name included. Sparse: a key of 20 characters with ten hits spread over a day. Dense: a hit every second
for a week. Every counter answers windows of up to a week. The three rings of slots are the smallest where hits are dense, and
pay with the error above.

{{.Memory}}
{{.TenMillion}}
## Hits over HTTP

Processor time of the server per hit, for ` + "`POST /v1/hits`" + ` in text batches of 1000 on two keep-alive connections, a million keys
after Zipf's law; and in requests of one hit as JSON, 100,000 keys.

{{.HTTP}}
## A request of one of a million keys, under a limit each

Nanoseconds of wall time per request, by each limiter's own clock. Keys follow Zipf's law (1.1) and all were seen before; a limit
of 10/s refuses the most frequent ones most of the time. What each admits at worst is another matter: [adversary.md](adversary.md).

{{.Allow}}
Memory of one more key of 20 characters whose requests of a second are all used, the name included:

{{.LimitMemory}}
## Decisions over HTTP

Processor time of the server per ` + "`POST /v1/allow`" + `, in µs, on two keep-alive connections. Weir lets a small
heap grow by 64 MiB before it is collected ([deploy.md](deploy.md)), the handler has Go's default.

{{.AllowHTTP}}
## A log of a million lines

Whole programs on the same file in Apache's combined format, in turns. goaccess does more than count: it fills all panels of
its report.

{{.Replay}}`

// write writes the page.
func write(w io.Writer, r *results) error {
	return template.Must(template.New("").Parse(pageText)).Execute(w, map[string]any{
		"Machine":    machineRows(r),
		"Glance":     text(r, writeGlance),
		"Targets":    text(r, writeTargets),
		"Hot":        text(r, writeHot),
		"Processors": processors(r),
		"Read":       text(r, writeRead),
		"ReadLost":   readLost(r),
		"Keyed":      text(r, writeKeyed),
		"Error":      text(r, writeError),
		"Memory":     text(r, writeMemory),
		"TenMillion": tenMillion(r),
		"HTTP":       text(r, writeHTTP),
		"Replay":     text(r, writeReplay),

		"Allow":       text(r, writeAllow),
		"LimitMemory": text(r, writeLimitMemory),
		"AllowHTTP":   text(r, writeAllowHTTP),
	})
}

func text(r *results, write func(io.Writer, *results)) string {
	var b strings.Builder
	write(&b, r)
	return b.String()
}

func machineRows(r *results) (rows [][2]string) {
	for _, key := range []string{"date", "commit", "processor", "memory", "system", "toolchain", "xsync", "victoriametrics", "ratecounter", "awk", "goaccess"} {
		if value := r.machine[key]; value != "" {
			rows = append(rows, [2]string{key, value})
		}
	}
	return rows
}
