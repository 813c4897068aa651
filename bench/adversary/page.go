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

Written by ` + "`make adversary`" + ` (` + "`cd bench && go run ./adversary`" + `): do not edit. {{.Toolchain}}.

Every limiter is set to N = 1000 per period P = 1 s, with a burst of 1000. How many does it admit in any half-open interval
(t-P, t], if the caller does its worst? The search knows the schedules below, and tries 1000 random ones beside (seeds 0 to
999; bursts and single requests at, just before and just after multiples of P, just under P apart, and anywhere). *Just
before* and *just after* are one nanosecond. The interval is found by looking at every one that ends at an admission.

What it costs to be true stands beside: *greedy* asks every P/N for all that it can get, for 100 periods. A limiter that
admits 1000 in every period and never more has a total of 100,000; token buckets add the burst that they begin with.

| limiter | version | most in any P | worst schedule found | greedy, 100 P |
| --- | --- | --- | --- | --- |
{{range .Results}}| {{.Limiter}} | {{or .Version "-"}} | {{.Most}} | {{.Schedule}} | {{thousands .Total}} |
{{end}}
Where several schedules did the same, the first is named, in this order: *steady*, one every P/N for 4 P; one request, then a
burst just before and one just after 2 P, or P; a burst, then one every P/N; steady for 2 P, then a burst; a burst every P; a burst
just before P and one just before 2 P, a nanosecond less than P apart; random; greedy. A burst asks until it is denied.

## Why

- **Weir, ` + "`window`" + `** is the only limiter here, but for the exact log, that a caller can't get more than N from. The log keeps
  1000 times per key. Up to a burst of 256 Weir is that log. For a larger burst it keeps at most 200 times, each with a count,
  and admits at least 99 % of what the log admits.
- Token buckets and GCRA (Weir ` + "`gcra`" + `, x/time/rate, throttled) admit the burst, and what is filled meanwhile: 2N-1. x/time/rate
  rounds the wait for a token down to whole nanoseconds: the last one is there a moment early, which makes 2N.
- Windows that begin at multiples of P, of the clock (Weir ` + "`fixed`" + `) or of the key's first request (go-limiter), admit N on
  either side of an edge. ulule/limiter opens a window with a request and keeps it for P: that request is always out of the
  interval, the others are not.
- slidingwindow weighs the last window as if its requests had been spread evenly: of a burst at its very end, nothing is left just
  under P later.

## How

Time is virtual: an argument (Weir, x/time/rate, slidingwindow), the clock of the library's store (throttled), or that of
testing/synctest (ulule/limiter).{{range .Results}}{{if .RealTime}}

{{.Limiter}} takes the time from the runtime past testing/synctest. It ran in real time, with P = 20 ms, *just* = 2.5 ms, and without
the random schedules, until a round found 2N or 20 had not; its greedy caller asks every P/20.{{end}}{{end}}

The libraries keep their state in memory here, not in Redis. Left out: github.com/gubernator-io/gubernator/v2, whose module could not
be had (the module proxy answered 403).
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
