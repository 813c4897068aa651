package main

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/limit"
)

const (
	requests = 1000        // N, and the burst
	period   = time.Second // P
	seeds    = 1000        // random schedules
	periods  = 100         // that the greedy caller asks for

	// Real time is short, and no more exact than a busy machine: rounds go on
	// until one finds 2N.
	realPeriod = 20 * time.Millisecond
	realLead   = realPeriod / 8
	realRounds = 20
)

var resultsFile = flag.String("results", "", "write the results to this file, in JSON")

// TestAdversary looks for the largest number that each limiter admits in any
// period. What Weir promises must hold; what is found of the others belongs to
// the versions in go.mod, and proves that the search finds something.
func TestAdversary(t *testing.T) {
	var results []result
	add := func(want int, r result) {
		t.Logf("%s: most %d (%s), total %d", r.Limiter, r.Most, r.Schedule, r.Total)
		if r.Most != want {
			t.Errorf("%s: admitted %d in a period, want %d", r.Limiter, r.Most, want)
		}
		results = append(results, r)
	}
	for _, l := range []struct {
		name   string
		module string
		start  func(*testing.T) limiter
		want   int
	}{
		{"the exact log of the last N admissions", "", exactLog, 1000},
		{"**Weir**, `window`", "", weirLimit(limit.Window), 1000},
		{"Weir, `gcra`", "", weirLimit(limit.GCRA), 1999},
		{"Weir, `fixed`", "", weirLimit(limit.Fixed), 2000},
		{"x/time/rate", "golang.org/x/time", xTimeRate, 2000},
		{"throttled, GCRA", "github.com/throttled/throttled/v2", throttledGCRA, 1999},
		{"slidingwindow", "github.com/RussellLuo/slidingwindow", slidingWindow, 2000},
	} {
		add(l.want, virtual(l.name, l.module, func() (limiter, clock) { return l.start(t), virtualTime }))
	}
	synctest.Test(t, func(t *testing.T) {
		add(1999, virtual("ulule/limiter", "github.com/ulule/limiter/v3", func() (limiter, clock) { return ululeLimiter(t) }))
	})
	add(2000, real("go-limiter", "github.com/sethvargo/go-limiter", func() (limiter, clock) { return goLimiter(t) }))
	writeResults(t, results)
}

// virtual searches where time costs nothing.
func virtual(name, module string, start func() (limiter, clock)) result {
	all := schedules(period, 1, requests)
	for seed := range uint64(seeds) {
		all = append(all, random(seed, period, 1, requests))
	}
	takeAll := greedy(period/requests, periods*requests, requests)
	r := result{Limiter: name, Module: module}
	r.Most, r.Schedule = worst(append(all, takeAll), period, start)
	r.Total = len(takeAll.admissions(start()))
	return r
}

// real searches by the machine's clock.
func real(name, module string, start func() (limiter, clock)) result {
	r := result{Limiter: name, Module: module, RealTime: true}
	for round := 0; round < realRounds && r.Most < 2*requests; round++ {
		if most, schedule := worst(schedules(realPeriod, realLead, requests), realPeriod, start); most > r.Most {
			r.Most, r.Schedule = most, schedule
		}
	}
	r.Total = len(greedy(realPeriod/20, periods*20, requests).admissions(start()))
	return r
}

func writeResults(t *testing.T, results []result) {
	if *resultsFile == "" {
		return
	}
	data, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*resultsFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
