package main

import (
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
)

func estimate(t *testing.T, e *weir.Engine, key string, at time.Time, w time.Duration) float64 {
	t.Helper()
	c, err := e.CountAt(at, key, w)
	if err != nil {
		t.Fatal(err)
	}
	return float64(c.Estimate)
}

// The past has a rhythm and bursts, and what is made now goes on where it ends.
func TestTraffic(t *testing.T) {
	now := time.Unix(1_769_860_800, 0) // a Saturday, noon in UTC
	e, err := weir.New(weir.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	policies, err := admit.NewLive((*engine.Engine)(e), demoPolicies())
	if err != nil {
		t.Fatal(err)
	}
	to, err := service.New(service.Backend{Engine: (*engine.Engine)(e), Policies: policies}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := httpapi.New(to, httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	made := newTraffic(e, listener.Handler(), 1)
	sum := func(prefix string) (n uint64) {
		top, err := e.Top(now, time.Minute, 5000, prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range top {
			n += k.Estimate
		}
		return n
	}
	started := now.Add(-20 * time.Second) // it takes that long
	if err := made.Past(func() time.Time { defer func() { started = now }(); return started }); err != nil {
		t.Fatal(err)
	}
	for back := range 30 {
		if estimate(t, e, weir.AllKeys, now.Add(time.Duration(-1-back)*time.Second), time.Second) == 0 {
			t.Errorf("nothing came %d seconds ago", back+1)
		}
	}
	noon := estimate(t, e, weir.AllKeys, now, time.Hour)
	night := estimate(t, e, weir.AllKeys, now.Add(-8*time.Hour), time.Hour)
	if noon < 2*night || night < 10_000 {
		t.Errorf("%v hits an hour at noon, %v at night", noon, night)
	}
	if denied := estimate(t, e, "limit:client:denied", now, time.Hour); denied < 1000 {
		t.Errorf("%v denied", denied)
	}
	before := estimate(t, e, "url:/products", now, time.Minute)
	if pages, visitors := sum("url:"), sum("visitor:"); pages == 0 || pages != visitors {
		t.Errorf("a minute had %d hits of pages, by visitors %d", pages, visitors)
	}
	for range 600 { // a minute, of one moment
		if err := made.now(t.Context(), now.Unix()); err != nil {
			t.Fatal(err)
		}
	}
	if then := estimate(t, e, "url:/products", now, time.Minute) - before; then < before*.85 || then > before*1.15 {
		t.Errorf("a minute had %v hits, and now %v", before, then)
	}
	if pages, visitors := sum("url:"), sum("visitor:"); pages != visitors {
		t.Errorf("%d hits of pages, by visitors %d", pages, visitors)
	}
	if asked := estimate(t, e, "limit:login:allowed", now, time.Second) + estimate(t, e, "limit:client:allowed", now, time.Second); asked < 100 {
		t.Errorf("%v decisions: nobody asks", asked)
	}
}
