package region

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// figures are counters of the region's goroutines.
type figures struct {
	feeds atomic.Int64  // other regions that pull from this node now
	sent  atomic.Uint64 // bytes to them
	pulls pulls

	mu      sync.Mutex
	failure string // why nothing is written or read; "": it is
	since   time.Time
}

// failing takes what became of the last attempt, and reports whether attempts began to fail with it, or to succeed again.
func (f *figures) failing(err error) (began, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.failure
	if f.failure = ""; err != nil {
		f.failure = err.Error()
	}
	if began = was == "" && err != nil; began {
		f.since = time.Now()
	}
	return began, was != "" && err == nil
}

// lateAfter is how late a digest may be before its region is late.
const lateAfter = 3 * time.Second

// Regions returns all regions that are known, this one included, by name. It does not wait.
func (r *Region) Regions() []api.Region {
	r.mu.Lock()
	defer r.mu.Unlock()
	linked := map[string]bool{}
	for _, l := range r.cfg.Links {
		linked[l.Region] = true
	}
	now := time.Now()
	var list []api.Region
	for _, name := range r.ledger.Regions() {
		known, is := r.ledger.Region(name), r.shown[name]
		s := api.Region{
			Region: name, Self: name == r.cfg.Name, Epoch: is.Epoch, Digest: is.Seq, Gone: is.gone, Linked: linked[name], LagS: is.lag.Seconds(), Bytes: is.bytes,
			Wrong: known.Audit.Wrong, Base: known.Building(), Known: is.note != nil || name == r.cfg.Name,
		}
		asOf, heard, every := time.Unix(0, 0), time.Duration(0), time.Duration(0)
		if is.Epoch > 0 {
			asOf, heard = time.UnixMilli(is.at), now.Sub(is.heard)
		}
		if is.note != nil {
			every, s.Nodes = is.note.Every, is.note.Late
		}
		if asOf.After(now) {
			asOf = now
		}
		s.AsOf, s.HeardS, s.EveryS = api.Millis(asOf), heard.Seconds(), every.Seconds()
		s.Late = !s.Gone && (s.Epoch == 0 || heard > every+lateAfter || len(s.Nodes) == 0 && now.Sub(asOf) > 2*every+lateAfter)
		delete(linked, name)
		list = append(list, s)
	}
	for name := range linked {
		list = append(list, api.Region{Region: name, Linked: true, Late: true, AsOf: api.Time{Time: time.Unix(0, 0)}})
	}
	slices.SortFunc(list, func(a, b api.Region) int { return strings.Compare(a.Region, b.Region) })
	return list
}

func (r *Region) linkStatus() []api.RegionLink {
	now, list := time.Now(), []api.RegionLink{}
	for _, l := range r.links {
		l.mu.Lock()
		s := api.RegionLink{Region: l.Region, URL: l.URL, Up: l.running.Load(), Why: l.failure, Bytes: l.total.Load(), PerS: l.rate(), Retries: l.tries}
		if !l.since.IsZero() {
			s.ForS = now.Sub(l.since).Seconds()
		}
		l.mu.Unlock()
		list = append(list, s)
	}
	return list
}

// Status returns what this node knows of all regions, and what it does for its own. It does not wait.
func (r *Region) Status() api.RegionsAnswer {
	a := api.RegionsAnswer{
		Region: r.cfg.Name, Owner: r.owns(), Regions: r.Regions(), Links: r.linkStatus(), Pulls: r.figures.pulls.status(),
		Feeds: r.figures.feeds.Load(), Sent: r.figures.sent.Load(), Missing: r.unviewed.Load(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Last, a.Damaged, a.Unread = r.ledger.Next()-1, r.damaged, r.unread
	return a
}

// Forget drops all hits of a region that never comes back, here and in all regions that links reach. If it does come back,
// it has all its hits, in a new epoch.
func (r *Region) Forget(ctx context.Context, name string) error {
	if name == r.cfg.Name {
		return &api.Error{Code: api.CodeInvalidParameter, Field: "region", Message: "this is the server's own region: stop it, and forget it in another region"}
	}
	return r.do(ctx, func(ctx context.Context) error { return r.forget(ctx, name) })
}

func (r *Region) forget(ctx context.Context, name string) error {
	for range 10 { // another node appends too
		if err := r.follow(ctx); err != nil {
			return err
		}
		known := r.ledger.Region(name)
		if known == nil || known.Epoch == 0 {
			return &api.Error{Code: api.CodeUnknownRegion, Field: "region", Message: "there is no region " + name}
		}
		if known.Gone {
			return nil
		}
		if is := r.statusOf(name); !is.Late {
			r.log.Warn("regions: a region was forgotten, but its digests still arrive, so it will return with all its hits. Stop it or remove its links", "region", name, "as_of", is.AsOf.Time)
		}
		err := r.append(ctx, entry{data: Gone(name, known.Epoch+1, time.Now().UnixMilli())})
		if !errors.Is(err, errBehind) {
			return err
		}
	}
	return errBehind
}

func (r *Region) statusOf(name string) api.Region {
	list := r.Regions()
	return list[slices.IndexFunc(list, func(s api.Region) bool { return s.Region == name })]
}

// traffic counts bytes, in total and lately.
type traffic struct {
	total atomic.Uint64
	last  *engine.Counter
}

// rateOver is the time over which bytes per second are averaged.
const rateOver = 10 * time.Second

func newTraffic() traffic {
	last, err := engine.NewCounter(2 * rateOver)
	if err != nil {
		panic(err) // whole seconds within bounds
	}
	return traffic{last: last}
}

func (t *traffic) add(bytes int) {
	t.total.Add(uint64(bytes))
	t.last.HitN(uint64(bytes))
}

func (t *traffic) rate() float64 {
	count, err := t.last.Count(rateOver)
	if err != nil {
		return 0 // rateOver is whole seconds
	}
	return float64(count.Estimate) / rateOver.Seconds()
}

// pull is what one other region pulls from this node.
type pull struct {
	traffic
	now    atomic.Int64  // connections
	behind atomic.Uint64 // messages of the log that it has not been sent yet
}

// pulls are the pulls of all regions since the start. The zero value is ready for use.
type pulls struct {
	mu sync.Mutex
	by map[string]*pull
}

// begin records that a region pulls. The caller subtracts 1 from now at the end.
func (p *pulls) begin(region string) *pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[string]*pull{}
	}
	pulled := p.by[region]
	if pulled == nil {
		if len(p.by) >= maxLinks {
			maps.DeleteFunc(p.by, func(_ string, pulled *pull) bool { return pulled.now.Load() == 0 })
		}
		pulled = &pull{traffic: newTraffic()}
		p.by[region] = pulled
	}
	pulled.now.Add(1)
	return pulled
}

func (p *pulls) status() []api.RegionPull {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []api.RegionPull{}
	for _, name := range slices.Sorted(maps.Keys(p.by)) {
		pulled := p.by[name]
		one := api.RegionPull{Region: name, Now: pulled.now.Load() > 0, Bytes: pulled.total.Load(), PerS: pulled.rate()}
		if one.Now {
			one.Behind = pulled.behind.Load()
		}
		list = append(list, one)
	}
	return list
}
