package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-counter/weir/bench/proc"
	"github.com/weir-counter/weir/bench/traffic"
)

// batchHits is how many hits one request has.
const batchHits = 1_000

// server is a weir serve.
type server struct {
	process *exec.Cmd
	url     string
	client  *http.Client
}

func (b *bench) serve(args ...string) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(b.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	process := exec.CommandContext(b.ctx, b.weir, append([]string{"serve", "--log-level", "error", "--http", address}, args...)...)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("%w: build it with make build, or name it with -weir", err)
	}
	s := &server{process, "http://" + address, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}}
	for range 500 {
		request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return nil, err
		}
		if resp, err := s.client.Do(request); err == nil {
			if err := resp.Body.Close(); err != nil || resp.StatusCode == http.StatusOK {
				return s, err
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	s.stop()
	return nil, errors.New("weir serve does not answer after 10 s")
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = s.process.Wait()
}

func (s *server) post(ctx context.Context, query string, body []byte, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/hits"+query, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/plain")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Contains(answer, fmt.Appendf(nil, `"counted":%d,`, want)) {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// postAll posts a number of batches over two connections.
func (s *server) postAll(ctx context.Context, bodies [][]byte, n int) error {
	var next atomic.Int64
	var sending sync.WaitGroup
	failures := make([]error, 2)
	for c := range failures {
		sending.Go(func() {
			for i := next.Add(1); i <= int64(n) && failures[c] == nil; i = next.Add(1) {
				failures[c] = s.post(ctx, "", bodies[i%int64(len(bodies))], batchHits)
			}
		})
	}
	sending.Wait()
	return errors.Join(failures...)
}

// throughput posts the same batches to a server with a journal and to one
// without, in turn.
func (b *bench) throughput() error {
	names, picks := traffic.Keys(b.keys), traffic.Picks(500*batchHits, b.keys)
	var zipf [][]byte
	for some := range slices.Chunk(picks, batchHits) {
		var body []byte
		for _, pick := range some {
			body = append(append(body, names[pick]...), '\n')
		}
		zipf = append(zipf, body)
	}
	hot := [][]byte{bytes.Repeat([]byte("url:/home\n"), batchHits)}
	for _, work := range []struct {
		name   string
		bodies [][]byte
	}{{"hot", hot}, {"zipf" + short(b.keys), zipf}} {
		for round := range b.rounds {
			without, err := b.throughputOf(work.name+"/ephemeral", work.bodies, "--ephemeral")
			if err != nil {
				return err
			}
			with, err := b.throughputOf(work.name+"/journal", work.bodies, "--data", filepath.Join(b.dir, fmt.Sprint(work.name, round)))
			if err != nil {
				return err
			}
			fmt.Fprintf(b.out, "BenchmarkPost/keys=%s/cost 1 %.1f lost-hits-%% %.1f more-cpu-%%\n", work.name,
				100-100*with.hitsPerSecond/without.hitsPerSecond, 100*with.cpuPerHit/without.cpuPerHit-100)
		}
	}
	return nil
}

// short writes a number of keys as 1M or 20k.
func short(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprint(n/1_000_000, "M")
	}
	return fmt.Sprint(n/1000, "k")
}

// posted is what a server did with the batches.
type posted struct {
	hitsPerSecond float64
	cpuPerHit     float64 // ns
}

func (b *bench) throughputOf(name string, bodies [][]byte, args ...string) (p posted, err error) {
	s, err := b.serve(args...)
	if err != nil {
		return p, err
	}
	defer s.stop()
	if err := s.postAll(b.ctx, bodies, len(bodies)); err != nil { // makes the keys
		return p, err
	}
	used, err := proc.CPU(s.process.Process.Pid)
	if err != nil {
		return p, err
	}
	began := time.Now()
	if err := s.postAll(b.ctx, bodies, b.batches); err != nil {
		return p, err
	}
	took := time.Since(began)
	after, err := proc.CPU(s.process.Process.Pid)
	hits := b.batches * batchHits
	p = posted{float64(hits) / took.Seconds(), float64(after-used) / float64(hits)}
	fmt.Fprintf(b.out, "BenchmarkPost/keys=%s %d %.0f hits/s %.1f cpu-ns/hit\n", name, hits, p.hitsPerSecond, p.cpuPerHit)
	return p, err
}

// durable measures the wait of hits that are answered once they are on disk.
func (b *bench) durable() error {
	for _, writers := range []int{1, 64} {
		for round := range b.rounds {
			s, err := b.serve("--data", filepath.Join(b.dir, fmt.Sprint("durable", writers, round)))
			if err != nil {
				return err
			}
			waits, err := s.waits(b.ctx, writers, b.waits)
			s.stop()
			if err != nil {
				return err
			}
			at := func(q float64) float64 { return float64(waits[int(q*float64(len(waits)-1))]) / 1e6 }
			fmt.Fprintf(b.out, "BenchmarkDurable/writers=%d %d %.3f p50-ms %.3f p99-ms\n", writers, len(waits), at(0.5), at(0.99))
		}
	}
	return nil
}

func (s *server) waits(ctx context.Context, writers int, during time.Duration) (all []time.Duration, err error) {
	each, failures := make([][]time.Duration, writers), make([]error, writers)
	var sending sync.WaitGroup
	end := time.Now().Add(during)
	for w := range writers {
		sending.Go(func() {
			body := fmt.Appendf(nil, "user:%d", w)
			for time.Now().Before(end) && failures[w] == nil {
				began := time.Now()
				failures[w] = s.post(ctx, "?durable=true", body, 1)
				each[w] = append(each[w], time.Since(began))
			}
		})
	}
	sending.Wait()
	all = slices.Concat(each...)
	slices.Sort(all)
	return all, errors.Join(failures...)
}
