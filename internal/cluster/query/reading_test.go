package query

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
)

// A holder that has not applied the journal up to what an answer needs is passed over, and asked again: until it has, also after the
// router's own deadline, or the caller's time is over.
func TestHolderIsAsFreshAsWanted(t *testing.T) {
	const after = 15 // as many questions take longer than the deadline, because of pause
	var followed, behind atomic.Uint64
	f := newFleet(t, 2, 1, func(cfg *Config) {
		cfg.FlushEvery, cfg.Deadline = time.Nanosecond, after*pause*2/3
		cfg.Followed = func() uint64 {
			if behind.Add(1) > after {
				return followed.Load()
			}
			return 0
		}
	})
	far := f.keyOf(1, 0)
	f.hit(far, epoch, 3)
	n, scan := f.nodes[0], time.Hour
	for name, ask := range map[string]func(ctx context.Context, upTo uint64) error{
		"count": func(ctx context.Context, upTo uint64) error {
			_, _, err := n.Counts(ctx, upTo, []api.CountQuestion{{Key: far, At: now, Window: time.Hour}}, nil)
			return err
		},
		"all": func(ctx context.Context, upTo uint64) error {
			_, _, err := n.Counts(ctx, upTo, []api.CountQuestion{{Key: engine.AllKeys, At: now, Window: time.Hour}}, nil)
			return err
		},
		"series": func(ctx context.Context, upTo uint64) error {
			_, _, err := n.Series(ctx, upTo, far, now.Add(-scan), now, time.Minute)
			return err
		},
		"top": func(ctx context.Context, upTo uint64) error {
			_, _, err := n.Top(ctx, upTo, now, scan, 10, "")
			return err
		},
		"keys": func(ctx context.Context, upTo uint64) error {
			_, _, err := n.Keys(ctx, upTo, "", "", 10)
			return err
		},
	} {
		if err := ask(t.Context(), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		behind.Store(0)
		followed.Store(7)
		if err := ask(t.Context(), 7); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		short, cancel := context.WithTimeout(t.Context(), pause)
		if err := ask(short, 9); err == nil || asError(err).Code != api.CodeNotFresh {
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
		followed.Store(9)
		if err := ask(t.Context(), 9); err != nil { // the flight of the question before
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With shares too, a question on any node has what another one took just before and has
// not flushed.
func TestFreshAcrossShares(t *testing.T) {
	nodes := openThree(t, durable.Config{FlushEvery: 300 * time.Millisecond, Replicas: 1})
	for round := range uint64(40) {
		from, to := nodes[round%3], nodes[(round+1+round/3%2)%3]
		key := fmt.Sprint("k", round%7)
		if err := from.engine.Hit(key); err != nil {
			t.Fatal(err)
		}
		upTo, now, err := to.journal.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Second)
		counts, _, err := to.Counts(t.Context(), upTo, []api.CountQuestion{{Key: key, At: at, Window: time.Hour}, {Key: engine.AllKeys, At: at, Window: time.Hour}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if counts[0].Lower != round/7+1 || counts[1].Lower != round+1 {
			t.Fatalf("round %d: %v of %s, %v of all", round, counts[0], key, counts[1])
		}
	}
}
