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

// load is batches of hits in this form.
func (f form) load() load {
	counted := fmt.Appendf(nil, `"counted":%d,`, batchHits)
	return load{path: "/v1/hits", contentType: "text/plain", bodies: f.bodies(), good: func(status int, answer []byte) bool {
		return status == http.StatusOK && (len(answer) == 0 || bytes.Contains(answer, counted))
	}}
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

// oneHit is requests of one hit each, of 100,000 keys after Zipf's law.
func oneHit() load {
	const keys, picks = 100_000, 20_000
	names := traffic.Keys(keys)
	l := load{path: "/v1/hits", contentType: "application/json", good: func(status int, answer []byte) bool {
		return status == http.StatusOK && (len(answer) == 0 || bytes.Contains(answer, []byte(`"counted":1,`)))
	}}
	for _, pick := range traffic.Picks(picks, keys) {
		l.bodies = append(l.bodies, fmt.Appendf(nil, `{"key":%q}`, names[pick]))
	}
	return l
}

// load is what is posted to each server.
type load struct {
	path, contentType string
	bodies            [][]byte
	// good tells whether an answer is as it must be. The empty handler's is empty.
	good func(status int, answer []byte) bool
}

// post sends a number of requests over keep-alive connections, one at a time on each.
func (s *server) post(ctx context.Context, l load, requests int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var next atomic.Int64
	var sending sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		sending.Go(func() {
			for i := next.Add(1); i <= int64(requests); i = next.Add(1) {
				if err := l.postOne(ctx, client, s.url, l.bodies[i%int64(len(l.bodies))]); err != nil {
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

// postOne sends one request.
func (l load) postOne(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+l.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", l.contentType)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if !l.good(response.StatusCode, answer) {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}
