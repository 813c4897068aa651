package node_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

var (
	regionsFor   = flag.Duration("regions.for", time.Second, "how long TestRegionsSize measures each number of keys")
	regionsKeys  = flag.String("regions.keys", "1,1000", "numbers of active keys that TestRegionsSize measures")
	regionsHits  = flag.Int("regions.hits", 50_000, "hits a second of TestRegionsSize")
	regionsEvery = flag.Duration("regions.every", 100*time.Millisecond, "time between digests of TestRegionsSize")
	regionsOut   = flag.String("regions.out", "", "file that TestRegionsSize writes its table to")
)

// TestRegionsSize measures what a link takes: bytes a second for numbers of active keys, and how long a hit takes to the other region.
func TestRegionsSize(t *testing.T) {
	rows := []string{"| active keys | hits/s | bytes/s on the link | bytes per key and s | lag p50 | p99 |", "|---|---|---|---|---|---|"}
	for word := range strings.SplitSeq(*regionsKeys, ",") {
		var keys int
		if _, err := fmt.Sscan(word, &keys); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, measureRegions(t, keys))
	}
	page := strings.Join(rows, "\n") + "\n"
	t.Log("\n" + page)
	if *regionsOut != "" {
		if err := os.WriteFile(*regionsOut, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func measureRegions(t *testing.T, keys int) string {
	w := newRegionsEvery(t, *regionsEvery, map[string][]string{"us": {"eu"}}, "eu", "us")
	defer func() {
		w.stop(0)
		w.stop(1)
	}()
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%08d", i)
	}
	w.hit(0, "probe", 1)
	w.agree("probe", 1, 1)
	hitting, stop := context.WithCancel(t.Context())
	defer stop()
	var hitters sync.WaitGroup
	hits := 0
	hitters.Go(func() {
		const slice = 20 * time.Millisecond
		tick := time.NewTicker(slice)
		defer tick.Stop()
		for began := time.Now(); hitting.Err() == nil; <-tick.C {
			for due := int(time.Since(began).Seconds() * float64(*regionsHits)); hits < due; hits++ {
				if err := w.nodes[0].Engine().Hit(names[hits%keys]); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	<-time.After(*regionsFor / 4)
	bytes := func() uint64 {
		regions, err := w.asks[1].Regions(t.Context())
		if err != nil || len(regions.Links) != 1 {
			t.Fatal(regions, err)
		}
		return regions.Links[0].Bytes
	}
	before, began := bytes(), time.Now()
	var lags []time.Duration
	for n := uint64(2); time.Since(began) < *regionsFor; n++ {
		w.hit(0, "probe", 1)
		for hit := time.Now(); ; time.Sleep(2 * time.Millisecond) {
			counts, err := w.asks[1].Count(t.Context(), client.CountQuery{Keys: []string{"probe"}, Windows: []time.Duration{time.Hour}})
			if err != nil {
				t.Fatal(err)
			}
			if counts[0].Lower >= n {
				lags = append(lags, time.Since(hit))
				break
			}
		}
	}
	rate := float64(bytes()-before) / time.Since(began).Seconds()
	stop()
	hitters.Wait()
	slices.Sort(lags)
	return fmt.Sprintf("| %d | %d | %.0f | %.1f | %v | %v |", keys, *regionsHits, rate, rate/float64(min(keys, *regionsHits)),
		lags[len(lags)/2].Round(time.Millisecond), lags[len(lags)*99/100].Round(time.Millisecond))
}
