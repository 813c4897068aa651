package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

var (
	openPages = flag.Int("pages", 60, "pages of the dashboard that TestPagesCost has open")
	pagesFor  = flag.Duration("pages.for", 2*time.Second, "how long it measures, once with and once without them")
	pagesMost = flag.Float64("pages.most", 0.5, "the part of a core that they may cost; a short measurement is coarse")
)

// Pages that are open cost little, however many: those that ask the same share an answer.
func TestPagesCost(t *testing.T) {
	t.Parallel()
	p := startProcess(t, t.TempDir())
	c, err := client.New(p.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for batch := range 10 {
		var hits []client.Hit
		for i := range 1000 {
			hits = append(hits, client.Hit{Key: fmt.Sprintf("url:/%d", batch*1000+i), N: uint64(1 + i%7), At: now.Add(-time.Duration(i%3600) * time.Second)})
		}
		if _, err := c.Send(t.Context(), hits); err != nil {
			t.Fatal(err)
		}
	}
	bare, took := p.busy(t, c)
	ctx, leave := context.WithCancel(t.Context())
	var open sync.WaitGroup
	var views atomic.Int64
	seen := make([]atomic.Bool, *openPages)
	for i := range *openPages {
		path := []string{
			"overview?window=5m", "overview?window=1h", "overview?window=1d", fmt.Sprintf("key?key=url:/%d&window=1h", i%40), "limits", "nodes", "overview?window=5m&prefix=url:/1", "key?key=*&window=1d", "log",
		}[i%9]
		open.Go(func() {
			// A connection of its own, as each page has, of one of four machines: one has three quarters of the places.
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%4))}}
			page := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
			defer page.CloseIdleConnections()
			for again := time.NewTicker(time.Second); ctx.Err() == nil; {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/v1/views/"+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := page.Do(r)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", path, answer.Status)
				} else if err == nil {
					views.Add(1)
				}
				seen[i].Store(true)
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
		})
	}
	transporttest.Eventually(t, "every page shows something", func() bool {
		for i := range seen {
			if !seen[i].Load() {
				return false
			}
		}
		return true
	})
	before := views.Load()
	with, tookWith := p.busy(t, c)
	made := float64(views.Load()-before) / pagesFor.Seconds()
	leave()
	open.Wait()
	t.Logf("%d pages take %.0f views a second and cost %.1f %% of a core (%.1f %% with them, %.1f %% without); a hit takes %v at the median and %v at the 99th percentile with them, %v and %v without",
		*openPages, made, 100*(with-bare), 100*with, 100*bare, median(tookWith), high(tookWith), median(took), high(took))
	if with-bare > *pagesMost {
		t.Errorf("%d pages cost %.1f %% of a core, of %.0f %% at most", *openPages, 100*(with-bare), 100**pagesMost)
	}
}

func median(all []time.Duration) time.Duration { return all[len(all)/2].Round(time.Microsecond) }
func high(all []time.Duration) time.Duration   { return all[len(all)*99/100].Round(time.Microsecond) }

// busy sends hits, 100 a second, and returns the part of a core that the process uses meanwhile, and how long each hit took.
func (p *process) busy(t *testing.T, c *client.Client) (part float64, took []time.Duration) {
	t.Helper()
	began, used := time.Now(), p.used(t)
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for time.Since(began) < *pagesFor {
		<-ticks.C
		at := time.Now()
		if _, err := c.Send(t.Context(), []client.Hit{{Key: "url:/1"}}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	return (p.used(t) - used).Seconds() / time.Since(began).Seconds(), took
}

// used is the processor time of the process so far, of Linux's ticks of 10 ms.
func (p *process) used(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	sum := 0
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
