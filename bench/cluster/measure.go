package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/bench/proc"
	"github.com/weir-counter/weir/client"
)

// batchHits is how many hits one request has.
const batchHits = 1000

// bodies are requests of hits of keys, each as likely as the others.
func bodies(keys int) (all [][]byte) {
	random := rand.New(rand.NewPCG(1, uint64(keys)))
	for range 2 * max(1, keys/batchHits) {
		var body []byte
		for range batchHits {
			body = fmt.Appendf(body, "user:%07d\n", random.IntN(keys))
		}
		all = append(all, body)
	}
	return all
}

func (b *bench) post(n *node, body []byte) error {
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, n.url+"/v1/hits", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return err
}

// load sends requests to all nodes in parallel and returns how many hits it sent. It sends one request to each node per
// interval every; with 0 it sends the next one as soon as the last one is answered.
func (b *bench) load(nodes []*node, all [][]byte, every time.Duration) (hits int, took time.Duration, err error) {
	began := time.Now()
	counts, errs := make([]int, len(nodes)), make([]error, len(nodes))
	var sending sync.WaitGroup
	for i, n := range nodes {
		sending.Go(func() {
			for k := i; time.Since(began) < b.during && errs[i] == nil; k++ {
				errs[i] = b.post(n, all[k%len(all)])
				counts[i] += batchHits
				if due := time.Until(began.Add(time.Duration(counts[i]/batchHits) * every)); due > 0 {
					<-time.After(due)
				}
			}
		})
	}
	sending.Wait()
	for _, n := range counts {
		hits += n
	}
	return hits, time.Since(began), errors.Join(errs...)
}

// throughput is how many hits a second all nodes take.
func (b *bench) throughput(name string, nodes []*node, keys int) error {
	all := bodies(keys)
	used, err := cpu(nodes, proc.CPU)
	if err != nil {
		return err
	}
	hits, took, err := b.load(nodes, all, 0)
	if err != nil {
		return err
	}
	after, err := cpu(nodes, proc.CPU)
	fmt.Printf("BenchmarkHits/%s %d %.0f hits/s %.0f cpu-ns/hit\n", name, hits, float64(hits)/took.Seconds(), float64(after-used)/float64(hits))
	return err
}

// bytes is what the journal takes at a fixed rate of hits, over all nodes.
func (b *bench) bytes(name string, nodes []*node, keys int) error {
	all := bodies(keys)
	before, flushesBefore, err := written(b.ctx, nodes)
	if err != nil {
		return err
	}
	hits, took, err := b.load(nodes, all, time.Duration(float64(len(nodes)*batchHits)/float64(b.rate)*float64(time.Second)))
	if err != nil {
		return err
	}
	after, flushes, err := written(b.ctx, nodes)
	n := float64(after - before)
	fmt.Printf("BenchmarkJournal/%s %d %.0f hits/s %.0f B/s %.2f B/hit %.1f flushes/s\n", name, hits,
		float64(hits)/took.Seconds(), n/took.Seconds(), n/float64(hits), float64(flushes-flushesBefore)/took.Seconds())
	return err
}

// lag is the time from the answer to a hit on one node until another counts it.
func (b *bench) lag(name string, nodes []*node, hits int) error {
	var lags []time.Duration
	for i := range hits {
		key := fmt.Sprintf("lag:%d", i)
		from, to := nodes[i%len(nodes)], nodes[(i+1)%len(nodes)]
		if err := b.post(from, []byte(key)); err != nil {
			return err
		}
		began := time.Now()
		for {
			counts, err := to.client.Count(b.ctx, client.CountQuery{Keys: []string{key}, Windows: []time.Duration{time.Hour}})
			if err != nil {
				return err
			}
			if counts[0].Estimate == 1 {
				break
			}
		}
		lags = append(lags, time.Since(began))
		<-time.After(time.Duration(rand.Int64N(int64(10 * time.Millisecond)))) // not in step with flushes
	}
	slices.Sort(lags)
	at := func(q float64) float64 { return lags[int(q*float64(len(lags)-1))].Seconds() * 1000 }
	fmt.Printf("BenchmarkLag/%s %d %.0f p50-ms %.0f p99-ms %.0f max-ms\n", name, len(lags), at(0.5), at(0.99), at(1))
	return nil
}
