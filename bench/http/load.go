package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/bench/traffic"
)

// form is one way to write a hit.
type form struct {
	name string
	line func(key string) string
}

func forms() []form {
	return []form{
		{"key", func(key string) string { return key + "\n" }},
		{"key+n+at", func(key string) string { return fmt.Sprintf("%s 1 %d\n", key, time.Now().Unix()) }},
	}
}

// bodies are batches on a million keys after Zipf's law.
func (f form) bodies() [][]byte {
	const keys, batches = 1_000_000, 500
	names, picks := traffic.Keys(keys), traffic.Picks(batches*batchHits, keys)
	bodies := make([][]byte, batches)
	for i := range bodies {
		for _, pick := range picks[i*batchHits : (i+1)*batchHits] {
			bodies[i] = append(bodies[i], f.line(names[pick])...)
		}
	}
	return bodies
}

// post sends a number of batches over keep-alive connections, one request at a
// time on each.
func (s *server) post(ctx context.Context, bodies [][]byte, batches int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var next atomic.Int64
	var sending sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		sending.Go(func() {
			for i := next.Add(1); i <= int64(batches); i = next.Add(1) {
				if err := postOne(ctx, client, s.url+"/v1/hits", bodies[i%int64(len(bodies))]); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	sending.Wait()
	close(failures)
	return <-failures
}

// postOne sends one batch. weir serve must have counted all of it; the empty
// handler says nothing.
func postOne(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/plain")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	counted := fmt.Appendf(nil, `"counted":%d,`, batchHits)
	if response.StatusCode != http.StatusOK || len(answer) > 0 && !bytes.Contains(answer, counted) {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}
