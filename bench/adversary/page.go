package main

import (
	"io"
	"strconv"
	"text/template"
)

// result is what the search found of one limiter.
type result struct {
	Limiter  string
	Module   string // "": of this repository
	Version  string // of the module
	Most     int    // admissions in any period
	Schedule string // the first that had them admitted
	Total    int    // admissions of the greedy caller, in 100 periods
	RealTime bool   // measured by the machine's clock
}

const pageText = `# The adversary

Written by ` + "`make adversary`" + `: do not edit. {{.Toolchain}}.

How many requests does a limiter admit in any half-open interval (t-P, t] if the caller does its worst? Every limiter is set to N = 1000 per P = 1 s.
The search tries the schedules below and 1000 random ones, and examines every interval that ends at an admission. *Just before* and *just after* are one nanosecond.

*Greedy* asks every P/N for all that it can get, for 100 periods. Token buckets add their first burst.

| limiter | version | most in any P | worst schedule found | greedy, 100 P |
|---|---|---|---|---|
{{range .Results}}| {{.Limiter}} | {{or .Version "-"}} | {{.Most}} | {{.Schedule}} | {{thousands .Total}} |
{{end}}
## Why

- **Weir, ` + "`window`" + `** and the exact log never admit more than N. Up to a burst of 256 Weir is that log. For a larger burst it stores at
  most 200 times, and admits at least 99 % of what the log admits.
- **Token buckets and GCRA** (Weir ` + "`gcra`" + `, x/time/rate, throttled) admit the burst and the refill: 2N-1. x/time/rate
  rounds waits down to whole nanoseconds, which makes 2N.
- **Fixed windows** (Weir ` + "`fixed`" + `, go-limiter) admit N on either side of an edge. ulule/limiter opens a window with the first
  request, which is always outside the worst interval.
- **slidingwindow** assumes that requests of the last window were spread evenly.

## How

All state is in memory. Time is virtual.{{range .Results}}{{if .RealTime}}

{{.Limiter}} runs in real time, with P = 20 ms and *just* = 2.5 ms, without random schedules, until a round finds 2N.{{end}}{{end}}
`

// write writes the page.
func write(w io.Writer, toolchain string, results []result) error {
	page := template.New("").Funcs(template.FuncMap{"thousands": thousands})
	return template.Must(page.Parse(pageText)).Execute(w, map[string]any{"Toolchain": toolchain, "Results": results})
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
