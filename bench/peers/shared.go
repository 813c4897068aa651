package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// The shared limit is as in measurements of APISIX: 500 per second over two gateways that are offered 800.
const (
	sharedLimit   = 500
	sharedOffered = 800
	sharedSeconds = 10
)

// sharedFigures is what a limit over two addresses admitted.
type sharedFigures struct {
	name      string
	perSecond float64
	most      int // in any second that ends at an admission
	latency   latency
}

func (b *bench) measureShared(ctx context.Context) (all []sharedFigures, err error) {
	weir, err := b.startCluster(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.measureOneShared(ctx, "Weir, three nodes, asked at two", weir[:2], dialHTTP)
	for _, s := range weir {
		err = errors.Join(err, s.stop())
	}
	if err != nil {
		return nil, err
	}
	all = append(all, f)
	at, err := unused(ctx, 1)
	if err != nil {
		return nil, err
	}
	redis, err := start(ctx, at[0], nil, b.redisArgs(at[0]))
	if err != nil {
		return nil, err
	}
	for name, script := range map[string]string{"one Redis, log": logScript, "one Redis, counter": counterScript} {
		f, err := b.measureOneShared(ctx, name, []*server{redis, redis}, dialRESP(askScript(script)))
		if err != nil {
			return nil, errors.Join(err, redis.stop())
		}
		all = append(all, f)
	}
	return all, redis.stop()
}

// startCluster starts three nodes of Weir with their journals, and waits until they decide.
func (b *bench) startCluster(ctx context.Context) (nodes []*server, err error) {
	at, err := unused(ctx, 6)
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		s, err := start(ctx, at[i], nil, []string{b.weir, "serve", "--log-level", "error", "--http", at[i], "--cluster", "bench", "--node", fmt.Sprint("n", i+1),
			"--data", filepath.Join(b.scratch, fmt.Sprint("n", i+1)), "--cluster-addr", at[3+i], "--peers", strings.Join(at[3:], ",")})
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
			a, err := dialHTTP(ctx, s.address)
			if err == nil {
				_, err = a.ask(ctx, key{"ready", "ready", 1_000_000, 1000})
				_ = a.close() // it was for one question
			}
			if err == nil {
				break
			} else if time.Now().After(end) || ctx.Err() != nil {
				return nodes, err
			}
		}
	}
	return nodes, nil
}

func (b *bench) measureOneShared(ctx context.Context, name string, at []*server, dial func(context.Context, string) (asker, error)) (f sharedFigures, err error) {
	askers := make([]asker, b.connections)
	for i := range askers {
		if askers[i], err = dial(ctx, at[i%len(at)].address); err != nil {
			return f, err
		}
		defer askers[i].close() //nolint:errcheck // the server ends
	}
	clock := &admissions{begun: time.Now()}
	for i, a := range askers {
		askers[i] = &watched{a, clock}
	}
	k := key{"shared", name, sharedLimit, 1000}
	seconds := b.seconds
	b.seconds = sharedSeconds * time.Second
	f.latency, err = b.steady(ctx, askers, []key{k}, sharedOffered)
	b.seconds = seconds
	f.name, f.most = name, clock.most()
	f.perSecond = float64(clock.n.Load()) / sharedSeconds
	return f, err
}

// admissions are the times of all answers that admitted.
type admissions struct {
	begun time.Time
	n     atomic.Int64
	at    [sharedOffered * (sharedSeconds + 1)]atomic.Int64 // ns
}

// most is the most admissions within a second. The times are of the answers, so network and scheduling can add some.
func (a *admissions) most() (most int) {
	n := int(a.n.Load())
	for i, from := 0, 0; i < n; i++ {
		for a.at[from].Load() <= a.at[i].Load()-int64(time.Second) {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// watched notes when an asker is admitted.
type watched struct {
	asker
	clock *admissions
}

func (w *watched) ask(ctx context.Context, keys ...key) (int, error) {
	allowed, err := w.asker.ask(ctx, keys...)
	if allowed > 0 {
		w.clock.at[w.clock.n.Add(1)-1].Store(int64(time.Since(w.clock.begun)))
	}
	return allowed, err
}
