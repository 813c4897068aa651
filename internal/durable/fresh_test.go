package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

var freshRounds = flag.Int("fresh.rounds", 18, "how often a hit on one node is read on another")

// freshCluster is three nodes that flush when they are asked to, and not by themselves.
func freshCluster(t *testing.T) *cluster {
	c := newCluster(t, 3)
	for i := range c.cfgs {
		c.cfgs[i].FlushEvery = time.Minute
	}
	c.start()
	return c
}

// What one node took, and has not flushed, any other has in a fresh answer.
func TestFreshReadsWhatOthersTook(t *testing.T) {
	t.Parallel()
	c := freshCluster(t)
	took := make([]time.Duration, 0, *freshRounds)
	for n := range uint64(*freshRounds) {
		from, to := c.nodes[n%3], c.nodes[(n+1+n/3%2)%3]
		from.hit("k", 1_000_000, 1)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		upTo, now, err := to.j.Fresh(ctx)
		cancel()
		took = append(took, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		if got := to.count("k"); got.Lower != n+1 {
			t.Fatalf("round %d: %v, want %d", n, got, n+1)
		}
		if upTo > to.j.Followed() || now.Unix() != 1_000_000 {
			t.Fatalf("round %d: %+v, followed to %d", n, upTo, to.j.Followed())
		}
	}
	slices.Sort(took)
	t.Logf("a fresh answer took p50 %v, p99 %v of %d", took[len(took)/2], took[len(took)*99/100], len(took))
}

// Many questions at once share rounds, and each has the hits before it.
func TestFreshSharesRounds(t *testing.T) {
	t.Parallel()
	c := freshCluster(t)
	const asking, each = 32, 5
	var all sync.WaitGroup
	for g := range asking {
		all.Go(func() {
			key := fmt.Sprint("k", g)
			from, to := c.nodes[g%3], c.nodes[(g+1)%3]
			for n := range uint64(each) {
				if _, err := from.e.HitAt(time.Unix(1_000_000, 0), key, 1); err != nil {
					t.Error(err)
				}
				if _, _, err := to.j.Fresh(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if got, err := to.e.Count(key, engine.MaxWindow); err != nil || got.Lower != n+1 {
					t.Errorf("%s: %v (%v), want %d", key, got, err, n+1)
				}
			}
		})
	}
	all.Wait()
	rounds := uint64(0)
	for _, node := range c.nodes {
		rounds += node.j.Stats().Fresh
	}
	if rounds >= asking*each {
		t.Errorf("%d rounds for %d questions", rounds, asking*each)
	}
}

// A node that is away is named, and is waited for as long as is said; when it is back
// answers are fresh again, and one that has left is not waited for.
func TestFreshNamesWhoIsMissing(t *testing.T) {
	t.Parallel()
	c := freshCluster(t)
	within := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, _, err := c.nodes[0].j.Fresh(ctx)
		return err
	}
	if err := within(time.Minute); err != nil {
		t.Fatal(err)
	}
	if s := c.nodes[0].j.Stats(); s.Fresh == 0 || s.NotFresh > 0 {
		t.Errorf("%d rounds, %d failed", s.Fresh, s.NotFresh)
	}
	c.nodes[1].crash()
	c.nodes[1] = nil
	var missing *api.Error
	for range 2 { // also one that comes while nobody waits for the round before any more
		transporttest.Eventually(t, "n2 alone is missing", func() bool { // n3 may need longer than that
			if err := within(500 * time.Millisecond); !errors.As(err, &missing) || !slices.Contains(missing.Missing, "n2") {
				t.Fatalf("got %v", err)
			}
			return !slices.Contains(missing.Missing, "n3")
		})
	}
	transporttest.Eventually(t, "the rounds that failed are counted", func() bool { return c.nodes[0].j.Stats().NotFresh > 0 })
	c.start()
	if err := within(time.Minute); err != nil {
		t.Fatal(err)
	}
	c.nodes[2].close()
	c.nodes[2] = nil
	if err := within(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestFreshAlone(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t, t.TempDir()))
	r.hit("a", 1000, 1)
	if upTo, now, err := r.j.Fresh(t.Context()); err != nil || upTo != 0 || now.Unix() != 1000 {
		t.Errorf("%+v, %v", now, err)
	}
}

// While the journal takes no flush for want of space, a fresh question is refused for
// that, and not as by a node that stops.
func TestAFullJournalIsNotFresh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	j := c.nodes[0].j
	for began := time.Now(); ; {
		j.space.Found(uint64(j.cfg.MaxBytes)) // until it is looked at again
		_, _, err := j.Fresh(t.Context())
		var missing *api.Error
		if errors.As(err, &missing) {
			break
		}
		if err != nil || time.Since(began) > transporttest.Patience {
			t.Fatal(err)
		}
	}
	j.checkpoints.LookAtSize(t.Context())
	if _, _, err := j.Fresh(t.Context()); err != nil {
		t.Error(err)
	}
}
