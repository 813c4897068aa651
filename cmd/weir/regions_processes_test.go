package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

var regionsCut = flag.Duration("regions.cut", 3*time.Second, "for how long TestRegionsOfProcesses cuts a region off")

// regionSender sends durable hits to the nodes of a region, to each one after the other, each until that node
// acknowledges it: at another node it could count twice, if this one died in the middle of it.
type regionSender struct {
	region string
	nodes  []func() *process // nil while it does not run
	sent   atomic.Uint64     // acknowledged

	mu    sync.Mutex
	acked []time.Time // when
}

// run sends to the node of that index.
func (s *regionSender) run(ctx context.Context, t *testing.T, node int) {
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d-%d", s.region, node, i)
		for {
			if p := s.nodes[node](); p != nil && p.hit("hits", id, true) == nil {
				break
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.Context().Done():
				return
			}
		}
		s.mu.Lock()
		s.acked = append(s.acked, time.Now())
		s.mu.Unlock()
		s.sent.Add(1)
	}
}

// before is how many hits were acknowledged before a time.
func (s *regionSender) before(at time.Time) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := slices.BinarySearchFunc(s.acked, at, time.Time.Compare)
	return uint64(n)
}

// Three regions, one of three nodes, with 80 ms of round trip and 1 MB/s between them, count all hits that were acknowledged, once,
// after one was cut off and the node that writes another's digests was killed. No answer claims hits that are not in it.
func TestRegionsOfProcesses(t *testing.T) {
	t.Parallel()
	ports := transporttest.Addrs(t, 5)
	listeners := map[string][]string{"eu": ports[:3], "us": ports[3:4], "ap": ports[4:]}
	between := newWAN(t, 80*time.Millisecond, 1<<20)
	flags := func(region string) (list []string) {
		list = []string{"--region", region}
		for _, to := range []string{"eu", "us", "ap"} {
			if to != region {
				list = append(list, "--link", to+"=http://"+between.link(region, to, listeners[to]))
			}
		}
		return list
	}
	eu := newProcesses(t, flags("eu")...)
	for i := range clusterSize {
		eu.own[i] = []string{"--http", listeners["eu"][i]}
	}
	eu.start(0, 1, 2)
	us := startProcess(t, t.TempDir(), append(flags("us"), "--http", listeners["us"][0])...)
	ap := startProcess(t, t.TempDir(), append(flags("ap"), "--http", listeners["ap"][0])...)
	running := func() (list []*process) {
		for i := range clusterSize {
			if p := eu.nodes[i].Load(); p != nil {
				list = append(list, p)
			}
		}
		return list
	}
	senders := map[string]*regionSender{
		"eu": {region: "eu"},
		"us": {region: "us", nodes: []func() *process{func() *process { return us }}},
		"ap": {region: "ap", nodes: []func() *process{func() *process { return ap }}},
	}
	for i := range clusterSize {
		senders["eu"].nodes = append(senders["eu"].nodes, eu.nodes[i].Load)
	}
	ask := func(addr string) ([]api.CountAnswer, error) {
		c, err := client.New(addr, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Count(t.Context(), client.CountQuery{Keys: []string{"hits"}, Windows: []time.Duration{time.Hour}, ByRegion: true})
	}
	claims := func(addr string) {
		counts, err := ask(addr)
		if err != nil {
			return // it was killed
		}
		for _, part := range counts[0].Regions {
			s := senders[part.Region]
			if want := s.before(part.AsOf.Time); part.Lower < want {
				t.Errorf("%s says that %s is in up to %v with %d hits, and %d were acknowledged by then", addr, part.Region, part.AsOf, part.Lower, want)
			}
		}
	}
	sending, stop := context.WithCancel(t.Context())
	var senderGroup, checkerGroup sync.WaitGroup
	for _, s := range senders {
		for node := range s.nodes {
			senderGroup.Go(func() { s.run(sending, t, node) })
		}
	}
	checking, endChecks := context.WithCancel(t.Context())
	checkerGroup.Go(func() {
		for checking.Err() == nil {
			claims(us.addr)
			claims(ap.addr)
			if nodes := running(); len(nodes) > 0 {
				claims(nodes[0].addr)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	transporttest.Eventually(t, "each region has hits of all", func() bool {
		counts, err := ask(ap.addr)
		return err == nil && len(counts[0].Regions) == 3 && !slices.ContainsFunc(counts[0].Regions, func(r api.RegionCount) bool { return r.Lower == 0 })
	})

	between.cutOff("us", true)
	owner := ownerOf(t, eu)
	eu.kill(owner)
	time.Sleep(*regionsCut)
	counts, err := ask(ap.addr)
	if err != nil || !slices.ContainsFunc(counts[0].Late, func(l api.Late) bool { return l.Node == "us" }) && *regionsCut > 5*time.Second {
		t.Errorf("us is cut off, and %+v does not say so: %v", counts, err)
	}
	eu.start(owner)
	between.cutOff("us", false)
	healed := time.Now()
	time.Sleep(time.Second)
	stop()
	senderGroup.Wait()
	total := senders["eu"].sent.Load() + senders["us"].sent.Load() + senders["ap"].sent.Load()
	for _, addr := range []string{us.addr, ap.addr, eu.nodes[0].Load().addr, eu.nodes[1].Load().addr, eu.nodes[2].Load().addr} {
		var last string
		transporttest.Eventually(t, fmt.Sprintf("%d hits at %s", total, addr), func() bool {
			counts, err := ask(addr)
			if now := fmt.Sprintf("%+v %v", counts, err); err != nil || counts[0].Lower != total {
				if last == "" {
					t.Log(now)
				}
				last = now
				return false
			}
			return counts[0].Lower == total && counts[0].Exact
		})
	}
	t.Logf("%d hits; all regions had them %v after the cut ended", total, time.Since(healed).Round(10*time.Millisecond))
	endChecks()
	checkerGroup.Wait()
}

// ownerOf is the node that writes the digests of a cluster's region.
func ownerOf(t *testing.T, c *processes) (owner int) {
	t.Helper()
	transporttest.Eventually(t, "a node writes the digests", func() bool {
		for i := range clusterSize {
			asked, ok := c.client(i)
			if !ok {
				continue
			}
			if regions, err := asked.Regions(t.Context()); err == nil && regions.Owner {
				owner = i
				return true
			}
		}
		return false
	})
	return owner
}
