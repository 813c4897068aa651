package main

import (
	"fmt"
	"io"
)

// keyedLimits are the limits of BenchmarkKeyedAllow.
var keyedLimits = []int{10, 1000}

// memoryLimits are the limits of the command memory that the page shows.
var memoryLimits = []int{1, 10}

const xTimeRate = "xsync.Map+x-time-rate"

func keyedAllow(r *results, requests, goroutines int, design string) sample {
	return r.get(fmt.Sprintf("KeyedAllow/requests=%d/design=%s/goroutines=%d", requests, design, goroutines), "ns/op")
}

func limitMemory(r *results, requests int, design string) sample {
	return r.get(fmt.Sprintf("LimitMemory/requests=%d/design=%s", requests, design), "B/key")
}

func writeAllow(w io.Writer, r *results) {
	cells := []string{"limiter"}
	for _, requests := range keyedLimits {
		cells = append(cells, fmt.Sprintf("%d/s, ns", requests))
	}
	for _, requests := range memoryLimits {
		cells = append(cells, fmt.Sprintf("%d/s, bytes", requests))
	}
	header(w, cells...)
	for _, design := range r.designs("KeyedAllow/", "design") {
		cells := []string{title(design)}
		for _, requests := range keyedLimits {
			cells = append(cells, keyedAllow(r, requests, 2, design).String())
		}
		for _, requests := range memoryLimits {
			cells = append(cells, limitMemory(r, requests, design).String())
		}
		row(w, cells...)
	}
}

func writeAllowHTTP(w io.Writer, r *results) {
	asks := r.designs("Allow/", "ask")
	header(w, append([]string{"server"}, asks...)...)
	for _, server := range r.designs("Allow/", "server") {
		cells := []string{title(server)}
		for _, ask := range asks {
			cells = append(cells, r.get("Allow/ask="+ask+"/server="+server, "cpu-us/decision").String())
		}
		row(w, cells...)
	}
}

// limitTargets returns the targets of rate limits. Each is compared with the peer that is fastest in this run.
func limitTargets(r *results) (all []target) {
	for _, weir := range []string{"weir-gcra", "weir-window"} {
		for _, requests := range keyedLimits {
			for goroutines := 1; goroutines <= 2; goroutines++ {
				fastest := fastestLimiter(r, requests, goroutines)
				all = append(all, target{
					what:     fmt.Sprintf("%s, %d/s, %s, to %s", weir, requests, plural(goroutines), fastest),
					measured: keyedAllow(r, requests, goroutines, weir).over(keyedAllow(r, requests, goroutines, fastest)), limit: 0.9,
				})
			}
		}
	}
	for _, m := range []struct {
		design   string
		requests int
	}{{"weir-gcra", 10}, {"weir-window", 1}, {"weir-window", 3}} {
		all = append(all, target{
			what:     fmt.Sprintf("memory, %s, %d/s, to go-limiter", m.design, m.requests),
			measured: limitMemory(r, m.requests, m.design).over(limitMemory(r, m.requests, "go-limiter")), limit: 1,
		})
	}
	for _, ask := range r.designs("Allow/", "ask") {
		cpu := func(server string) sample { return r.get("Allow/ask="+ask+"/server="+server, "cpu-us/decision") }
		all = append(all, target{what: "decision over HTTP, " + ask + ", to an empty handler", measured: cpu("weir-serve").over(cpu("empty-handler")), limit: 1.5})
	}
	return all
}

func fastestLimiter(r *results, requests, goroutines int) (fastest string) {
	for _, peer := range []string{xTimeRate, "go-limiter", "ulule-limiter", "throttled", "xsync.Map+slidingwindow"} {
		s := keyedAllow(r, requests, goroutines, peer)
		if len(s) > 0 && (fastest == "" || s.median() < keyedAllow(r, requests, goroutines, fastest).median()) {
			fastest = peer
		}
	}
	return fastest
}
