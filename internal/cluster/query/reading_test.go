package query

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
)

// A holder that has not applied the journal up to what an answer needs is passed over,
// and asked again: until it has, or the time is over.
func TestHolderIsAsFreshAsWanted(t *testing.T) {
	var followed atomic.Uint64 // by all
	f := newFleet(t, 2, 1, func(cfg *Config) {
		cfg.Followed, cfg.FlushEvery, cfg.Deadline = followed.Load, time.Nanosecond, 300*time.Millisecond
	})
	far := f.keyOf(1, 0)
	f.hit(far, epoch, 3)
	n, scan := f.nodes[0], time.Hour
	questions := map[string]func(upTo uint64) error{
		"count": func(upTo uint64) error {
			_, _, err := n.Counts(t.Context(), upTo, []api.CountQuestion{{Key: far, At: now, Window: time.Hour}}, nil)
			return err
		},
		"all": func(upTo uint64) error {
			_, _, err := n.Counts(t.Context(), upTo, []api.CountQuestion{{Key: engine.AllKeys, At: now, Window: time.Hour}}, nil)
			return err
		},
	}
	for name, ask := range questions {
		if err := ask(5); err == nil || asError(err).Code != api.CodeNotFresh {
			t.Errorf("%s: got %v", name, err)
		}
		if err := ask(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	followed.Store(5)
	questions["series"] = func(upTo uint64) error {
		_, _, err := n.Series(t.Context(), upTo, far, now.Add(-scan), now, time.Minute)
		return err
	}
	questions["top"] = func(upTo uint64) error { _, _, err := n.Top(t.Context(), upTo, now, scan, 10, ""); return err }
	questions["keys"] = func(upTo uint64) error { _, _, err := n.Keys(t.Context(), upTo, "", "", 10); return err }
	for name, ask := range questions {
		if err := ask(5); err != nil {
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
