package sources

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/recent"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/denials"
	"github.com/weir-counter/weir/service/parse"
)

// peers are the nodes that count together with this one: those of a Cluster
// (clustered), or none (alone). New chooses once.
type peers interface {
	// fresh says how new the hits are that are counted here. It is asked for before what
	// it is said of.
	fresh() Fresh
	// aboutDenial is fresh for a denial of just now: nothing is allocated where no node is late.
	aboutDenial(now time.Time) denials.About
	// await waits until all hits are here that any node took before, for at most within,
	// which is above 0.
	await(ctx context.Context, within time.Duration) (Asked, error)
	addReady(*api.Ready)
}

func (s *Sources) peersOf(c backend.Cluster) peers {
	if c == nil {
		return alone{s}
	}
	return &clustered{s: s, cluster: c}
}

// alone has all hits, always.
type alone struct{ s *Sources }

func (a alone) fresh() Fresh { return Fresh{AsOf: a.s.Wall()} }

func (alone) aboutDenial(now time.Time) denials.About { return denials.About{AsOf: now} }

func (a alone) await(context.Context, time.Duration) (Asked, error) {
	asOf := a.s.Wall()
	return Asked{a.s, a.s.own, a.s.Now(), asOf}, nil
}

func (alone) addReady(*api.Ready) {}

type clustered struct {
	s       *Sources
	cluster backend.Cluster
	last    recent.Value[Fresh]
}

// freshnessEvery is how old a Freshness may be: it only says too little. The journal may
// be busy with what it missed: then one question waits for it, and not all.
const freshnessEvery = 50 * time.Millisecond

func (c *clustered) fresh() Fresh {
	return c.last.Get(freshnessEvery, func() Fresh {
		asOf, silent := c.cluster.Freshness()
		return Fresh{AsOf: asOf, Late: silent}
	})
}

func (c *clustered) aboutDenial(time.Time) denials.About {
	fresh := c.fresh()
	about := denials.About{AsOf: fresh.AsOf}
	for _, late := range fresh.Late {
		about.Late = append(about.Late, late.Name)
	}
	return about
}

func (c *clustered) await(ctx context.Context, within time.Duration) (Asked, error) {
	s := c.s
	asOf := s.Wall()
	if err := s.pools.Fresh.Enter(caller.Caller{}, 1); err != nil {
		return Asked{}, err
	}
	defer s.pools.Fresh.Leave(caller.Caller{}, 1)
	ctx, cancel := context.WithTimeout(ctx, min(within, parse.LongestFresh))
	defer cancel()
	upTo, theirs, err := c.cluster.Fresh(ctx)
	if err != nil {
		return Asked{}, notFresh(err)
	}
	return Asked{s, s.own.After(upTo), s.latest(theirs), asOf}, nil
}

func (c *clustered) addReady(a *api.Ready) {
	fresh := c.fresh().Answer()
	a.Freshness = &fresh
}
