package node_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node/nodetest"
)

// Visitors of a month are the union of those of its days, over a restart and however old the hits are.
func TestVisitorsOfMonths(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, nil)
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	rnd := rand.New(rand.NewPCG(5, 6))
	type seen struct {
		at int64
		id string
	}
	var all []seen
	for round := range 3 {
		c, err := client.New("http://"+n.Addr(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var hits []client.Hit
		for range 1500 {
			s := seen{first.Unix() + rnd.Int64N(days*86400), fmt.Sprint(rnd.IntN(200))}
			all = append(all, s)
			hits = append(hits, client.Hit{Key: "site:visitors", At: time.Unix(s.at, 0), Distinct: s.id})
		}
		if _, err := c.Send(t.Context(), hits); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			nodetest.Close(t, n)
			n = historical(t, dir, nil)
		}
		for _, unit := range []string{"day", "month", "year"} {
			for _, p := range aligned(t, n, fmt.Sprintf("key=site:visitors&align=%s&from=%d&distinct=true", unit, first.Unix())).Points {
				ids := map[string]bool{}
				for _, s := range all {
					if s.at >= p.Start.Unix() && s.at <= p.At.Unix() {
						ids[s.id] = true
					}
				}
				if d, want := p.Distinct, uint64(len(ids)); d == nil || d.Upper == nil || d.Lower != want || *d.Upper != want || d.Error != 0 {
					t.Fatalf("round %d, %s from %s: %+v, want %d", round, unit, p.Start, d, want)
				}
			}
		}
	}
}

// Ids that two regions saw count once.
func TestIDsOfRegions(t *testing.T) {
	t.Parallel()
	w := newRegions(t, mesh("eu", "us"), "eu", "us")
	see := func(i, from, to int) {
		var hits []client.Hit
		for id := from; id < to; id++ {
			hits = append(hits, client.Hit{Key: "v", Distinct: fmt.Sprint(id)})
		}
		if _, err := w.asks[i].Send(t.Context(), hits); err != nil {
			t.Fatal(err)
		}
	}
	agree := func(scope client.Scope, want uint64, at ...int) {
		t.Helper()
		for _, i := range at {
			last := ""
			transporttest.Eventually(t, fmt.Sprintf("%s has %d ids in scope %q", w.names[i], want, scope), func() bool {
				counts, err := w.asks[i].Count(t.Context(), client.CountQuery{Keys: []string{"v"}, Windows: []time.Duration{time.Hour}, Scope: scope, Distinct: true})
				if err != nil || counts[0].Distinct == nil {
					return false
				}
				d := counts[0].Distinct
				last = fmt.Sprintf("%+v", *d)
				if d.Lower > want || (d.Region != "") != (scope == "region") {
					t.Fatal(w.names[i], scope, last)
				}
				return d.Lower == want && d.Upper != nil && *d.Upper == want
			})
		}
	}
	see(0, 0, 100)
	see(1, 60, 140)
	agree("", 140, 0, 1)
	agree("global", 140, 0, 1)
	agree("region", 100, 0)
	agree("region", 80, 1)
	w.stop(1)
	see(0, 130, 150)
	w.start(1)
	see(1, 200, 210)
	agree("", 160, 0, 1)
	if err := w.asks[0].Delete(t.Context(), "v"); err != nil {
		t.Fatal(err)
	}
	agree("region", 90, 1)
	transporttest.Eventually(t, "us knows the deletion", func() bool {
		counts, err := w.asks[1].Count(t.Context(), client.CountQuery{Keys: []string{"v"}, Windows: []time.Duration{time.Hour}, Distinct: true})
		return err == nil && counts[0].Distinct != nil && counts[0].Distinct.Lower == 90
	})
}
