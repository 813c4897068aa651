package main

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

var freshRounds = flag.Int("fresh-rounds", 18, "how often TestFreshOverHTTP reads on one node what another took")

// A plain hit that one node has answered is in the fresh answer of any other, whichever
// holds its key; while a node is cut off, the answer is 503 in time and names it.
func TestFreshOverHTTP(t *testing.T) {
	t.Parallel()
	readOwnWrites(t, newProcesses(t))
}

// The same where each node holds a part of the keys.
func TestFreshOverHTTPOfShares(t *testing.T) {
	t.Parallel()
	readOwnWrites(t, newProcesses(t, "--replicas", "1"))
}

func readOwnWrites(t *testing.T, c *processes) {
	c.start(0, 1, 2)
	c.converge("start")
	var took []time.Duration
	for round := range *freshRounds {
		from, to := round%3, (round+1+round/3%2)%3
		asked, _ := c.client(to)
		if !c.nodes[from].Load().post("own", 1, "", false) {
			t.Fatal("a hit was not taken")
		}
		began := time.Now()
		answers, err := asked.Count(t.Context(), client.CountQuery{Keys: []string{"own"}, Windows: []time.Duration{time.Hour}, Fresh: 10 * time.Second})
		took = append(took, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		if got := answers[0]; got.Lower != uint64(round+1) || !got.Exact || got.AsOf.Before(began.Add(-time.Second)) {
			t.Fatalf("round %d, %s asked after %s: %+v", round, c.name(to), c.name(from), got)
		}
	}
	slices.Sort(took)
	t.Logf("fresh answers: p50 %v, p99 %v, most %v of %d", took[len(took)/2], took[len(took)*99/100], took[len(took)-1], len(took))

	c.network.Cut(c.name(2), true)
	asked, _ := c.client(0)
	_, err := asked.Count(t.Context(), client.CountQuery{Keys: []string{"own"}, Fresh: time.Second})
	var refused *client.Error
	if !errors.As(err, &refused) || !refused.NotFresh() || !slices.Contains(refused.Missing, c.name(2)) {
		t.Errorf("while %s is cut off: %v", c.name(2), err)
	}
	code, _, stderr := weirOf(t, map[string]string{"WEIR_SERVER": c.nodes[0].Load().addr}, "", "count", "own", "--fresh", "500ms")
	if code != exitFailure || !strings.Contains(stderr, c.name(2)) || !strings.Contains(stderr, "not_fresh") {
		t.Errorf("weir count --fresh while %s is cut off: exit %d, %s", c.name(2), code, stderr)
	}
	c.network.Cut(c.name(2), false)
	c.converge("the link is back")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := asked.Count(ctx, client.CountQuery{Keys: []string{"own"}, Fresh: 10 * time.Second}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	c.stop(0, 1, 2)
}
