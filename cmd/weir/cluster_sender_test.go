package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// hitter is a program that hits through a Sender.
type hitter struct {
	sender *client.Sender
	hits   map[string]uint64 // by key
	stop   chan struct{}
	ended  chan struct{}
}

func startHitter(t *testing.T, name, addresses string, o client.SenderOptions) *hitter {
	t.Helper()
	c, err := client.New(addresses, client.Options{Durable: true, MaxPause: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	h := &hitter{hits: map[string]uint64{}, stop: make(chan struct{}), ended: make(chan struct{})}
	if h.sender, err = client.NewSender(c, o); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			key := fmt.Sprintf("%s:%d", name, i%10)
			if err := h.sender.Hit(key); err != nil {
				t.Error(err)
				return
			}
			h.hits[key]++
			select {
			case <-h.stop:
				return
			case <-tick.C:
			}
		}
	}()
	return h
}

// end stops the program in good order, and returns what became of its hits.
func (h *hitter) end(t *testing.T) client.SenderStats {
	t.Helper()
	close(h.stop)
	<-h.ended
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	if err := h.sender.Close(ctx); err != nil {
		t.Log(err)
	}
	return h.sender.Stats()
}

// The node that programs send to is killed, and never comes back. A Sender that may send a batch without an answer to
// another node (AtLeastOnce) has each hit counted, and once: the others know what the node had sent them. One that may
// not, says of how many hits nobody knows, and all others count once.
func TestClusterSenderWhoseNodeNeverReturns(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	c.start(0, 1, 2)
	c.converge("start")
	var addresses []string
	for i := range c.nodes {
		addresses = append(addresses, c.nodes[i].Load().addr)
	}
	o := client.SenderOptions{Every: 10 * time.Millisecond, GiveUp: 8 * time.Second}
	dropping := startHitter(t, "dropping", strings.Join(addresses, ","), o)
	o.AtLeastOnce, o.GiveUp = true, 100*time.Millisecond // the others may not know the batch yet
	sending := startHitter(t, "sending", strings.Join(addresses, ","), o)
	transporttest.Eventually(t, "both send to the first node", func() bool {
		return dropping.sender.Stats().Counted > 0 && sending.sender.Stats().Counted > 0
	})
	c.kill(0)
	killed := [2]uint64{dropping.sender.Stats().Counted, sending.sender.Stats().Counted}
	transporttest.Eventually(t, "the other nodes take hits", func() bool {
		return dropping.sender.Stats().Counted > killed[0]+1000 && sending.sender.Stats().Counted > killed[1]+1000
	})
	dropped, sent := dropping.end(t), sending.end(t)
	if sent.Counted != sent.Taken || sent.InDoubt != 0 || sent.Repeated == 0 {
		t.Errorf("at least once: %+v", sent)
	}
	if dropped.Counted+dropped.InDoubt != dropped.Taken {
		t.Errorf("at most once: %+v", dropped)
	}
	for name, test := range map[string]struct {
		hits    map[string]uint64
		counted uint64 // for sure
		stats   client.SenderStats
	}{"at least once": {sending.hits, sent.Taken, sent}, "at most once": {dropping.hits, dropped.Counted, dropped}} {
		for _, i := range []int{1, 2} {
			transporttest.Eventually(t, fmt.Sprintf("%s: %s has %d hits", name, c.name(i), test.counted), func() bool {
				counts, sum := c.known(i, test.hits), uint64(0)
				for key, n := range counts {
					if sum += n; n > test.hits[key] {
						t.Fatalf("%s: %s counts %d hits of %s, and there were %d", name, c.name(i), n, key, test.hits[key])
					}
				}
				return sum >= test.counted
			})
		}
		t.Logf("%s: %+v", name, test.stats)
	}
	c.stop(1, 2)
}

// known is what a node has counted of keys. Their upper bound is not known: the node that is gone may have hits that it sent to nobody.
func (c *processes) known(i int, keys map[string]uint64) map[string]uint64 {
	counts := map[string]uint64{}
	asked, ok := c.client(i)
	if !ok {
		return counts
	}
	answers, err := asked.Count(c.t.Context(), client.CountQuery{Keys: slices.Collect(maps.Keys(keys)), Windows: []time.Duration{time.Hour}})
	if err != nil {
		return counts
	}
	for _, a := range answers {
		counts[a.Key] = a.Lower
	}
	return counts
}
