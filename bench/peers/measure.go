package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/bench/traffic"
)

// workload is the keys that are asked for.
type workload struct {
	name  string
	kind  string // of the limit
	keys  int
	n, ms int
}

func workloads() []workload {
	return []workload{
		{"1 key", "one", 1, 1_000_000, 1000},
		{"1 M keys", "user", 1_000_000, 100, 60_000},
		{"over the limit", "over", 1000, 1, 60_000},
	}
}

// picks are the keys in the order in which they are asked for: by Zipf's law (1.1), or all alike.
func (w workload) picks() []key {
	const most = 1 << 20
	keys := make([]key, most)
	names := []string{"one:key"}
	var order []uint32
	if w.keys > 1 {
		names, order = traffic.Keys(w.keys), traffic.Picks(most, w.keys)
	}
	for i := range keys {
		name := names[i%len(names)]
		if w.kind == "user" {
			name = names[order[i]]
		}
		keys[i] = key{w.kind, name, w.n, w.ms}
	}
	return keys
}

// figures are what one server took in one round.
type figures struct {
	peer
	round   int
	works   []workFigures // by workload
	perKey  float64       // bytes
	pipeCPU float64       // us per decision of "1 M keys", 16 requests at once; 0: the protocol cannot
	pipe    float64       // decisions per second
}

type workFigures struct {
	rate, cpu float64 // decisions per second at most, and us of the server's processor time for one
	half      latency // at half of rate
	same      latency // at the rate that is the same for all
}

func (f *figures) String() string {
	s := fmt.Sprintf("round %d: %-21s", f.round+1, f.name)
	for i, w := range workloads() {
		s += fmt.Sprintf(" | %s: %.0f/s, %.1f us, p99 %v, at the common rate p50 %v p99 %v p99.9 %v", w.name, f.works[i].rate, f.works[i].cpu,
			f.works[i].half.p99, f.works[i].same.p50, f.works[i].same.p99, f.works[i].same.p999)
	}
	return s
}

// latency is from the moment at which a request was due.
type latency struct{ p50, p99, p999 time.Duration }

// pipelined is how many requests are sent at once where the protocol can.
const pipelined = 16

// measure starts a peer, asks it for everything, and stops it.
func (b *bench) measure(ctx context.Context, p peer) (f *figures, err error) {
	s, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	askers := make([]asker, b.connections)
	for i := range askers {
		if askers[i], err = p.dial(ctx, s.address); err != nil {
			return nil, err
		}
		defer askers[i].close() //nolint:errcheck // the server ends
	}
	for end := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) { // some take connections before they can answer
		if _, err := askers[0].ask(ctx, key{"user", "ready", 100, 60_000}); err == nil {
			break
		} else if time.Now().After(end) || ctx.Err() != nil {
			return nil, err
		}
	}
	f = &figures{peer: p}
	if f.perKey, err = b.memory(ctx, s, askers); err != nil {
		return nil, err
	}
	for _, w := range workloads() {
		keys := w.picks()
		if _, _, err := b.flood(ctx, s, askers, keys, 1, b.seconds/3); err != nil { // warms up
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		var figures workFigures
		if figures.rate, figures.cpu, err = b.flood(ctx, s, askers, keys, 1, b.seconds); err != nil {
			return nil, err
		}
		if figures.half, err = b.steady(ctx, askers, keys, figures.rate/2); err != nil {
			return nil, err
		}
		if figures.same, err = b.steady(ctx, askers, keys, float64(b.rate)); err != nil {
			return nil, err
		}
		if _, can := askers[0].(*respAsker); can && w.kind == "user" {
			if f.pipe, f.pipeCPU, err = b.flood(ctx, s, askers, keys, pipelined, b.seconds); err != nil {
				return nil, err
			}
		}
		f.works = append(f.works, figures)
	}
	return f, nil
}

// memory is the bytes of a further key that is asked for once.
func (b *bench) memory(ctx context.Context, s *server, askers []asker) (float64, error) {
	const keys, before = 200_000, 20_000
	ask := func(from, to int) error {
		return each(askers, func(i int, a asker) error {
			for n := from + i; n < to; n += len(askers) {
				if _, err := a.ask(ctx, key{"user", fmt.Sprintf("memory:%012d", n), 100, 60_000}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := ask(0, before); err != nil {
		return 0, err
	}
	first, err := s.resident()
	if err != nil {
		return 0, err
	}
	if err := ask(before, before+keys); err != nil {
		return 0, err
	}
	last, err := s.resident()
	return float64(last-first) / keys, err
}

// each does the same on all connections at once.
func each(askers []asker, do func(i int, a asker) error) error {
	errs := make([]error, len(askers))
	var all sync.WaitGroup
	for i, a := range askers {
		all.Go(func() { errs[i] = do(i, a) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// flood asks for as many decisions as possible, at once on each connection.
func (b *bench) flood(ctx context.Context, s *server, askers []asker, keys []key, at int, long time.Duration) (rate, cpu float64, err error) {
	before, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	var done atomic.Int64
	begun := time.Now()
	err = each(askers, func(i int, a asker) error {
		next := i * len(keys) / len(askers)
		for time.Since(begun) < long && ctx.Err() == nil {
			if next+at > len(keys) {
				next = 0
			}
			if _, err := a.ask(ctx, keys[next:next+at]...); err != nil {
				return err
			}
			next += at
			done.Add(int64(at))
		}
		return ctx.Err()
	})
	if err != nil {
		return 0, 0, err
	}
	took := time.Since(begun)
	after, err := s.cpu()
	return float64(done.Load()) / took.Seconds(), float64((after - before).Microseconds()) / float64(done.Load()), err
}

// steady asks at a constant rate, spread over the connections, whatever the answers take. A request that is due while
// its connection waits for an answer is sent late, and its latency counts from when it was due. Where the connection was
// idle, latency counts from the sending, because the lateness is of the client's own timer.
func (b *bench) steady(ctx context.Context, askers []asker, keys []key, rate float64) (latency, error) {
	gap := time.Duration(float64(time.Second) * float64(len(askers)) / rate)
	took := make([][]time.Duration, len(askers))
	begun := time.Now()
	err := each(askers, func(i int, a asker) error {
		due := begun.Add(gap * time.Duration(i) / time.Duration(len(askers)))
		next := i * len(keys) / len(askers)
		for end := begun.Add(b.seconds); due.Before(end) && ctx.Err() == nil; due = due.Add(gap) {
			from := due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				from = time.Now()
			}
			if _, err := a.ask(ctx, keys[next%len(keys)]); err != nil {
				return err
			}
			next++
			took[i] = append(took[i], time.Since(from))
		}
		return ctx.Err()
	})
	all := slices.Concat(took...)
	if err != nil || len(all) == 0 {
		return latency{}, errors.Join(err, ctx.Err())
	}
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[min(len(all)-1, int(share*float64(len(all))))].Round(time.Microsecond)
	}
	return latency{at(0.5), at(0.99), at(0.999)}, nil
}
