package region

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
)

// figures are what the region's goroutines count.
type figures struct {
	feeds atomic.Int64  // other regions that pull from this node now
	sent  atomic.Uint64 // bytes to them
	pulls pulls

	mu      sync.Mutex
	failure string // why nothing is written or read; "": it is
	since   time.Time
}

func (f *figures) failing(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.failure = ""
	case f.failure == "":
		f.failure, f.since = err.Error(), time.Now()
	default:
		f.failure = err.Error()
	}
}

// Status is what this node knows of a region.
type Status struct {
	Name    string
	Own     bool
	Epoch   uint64 // 0: nothing of it is known, but a link to it
	Seq     uint64 // of its last digest
	Gone    bool
	Linked  bool          // there is a link to it
	AsOf    time.Time     // all hits that it took until then are here, but for those of Late; the zero time: none are known
	Every   time.Duration // between its digests
	Heard   time.Duration // since its last digest came; 0 with Epoch 0
	Lag     time.Duration // from AsOf of its last digest until that came, by this node's clock
	Late    []Late        // nodes of it that are late
	Keys    Keys          // that it tells
	Behind  bool          // nothing of it came lately, or what came is old
	Base    bool          // a base of it is on its way
	Bytes   uint64        // of its messages since the start
	Wrong   uint64        // findings of the audit
	Started bool          // its windows are here
}

// lateAfter is how much later than its digests are due a region may be heard of.
const lateAfter = 3 * time.Second

// Regions are all that are known, this one included, by name.
func (r *Region) Regions() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	linked := map[string]bool{}
	for _, l := range r.cfg.Links {
		linked[l.Region] = true
	}
	now := time.Now()
	var list []Status
	for _, name := range r.ledger.Regions() {
		of, is := r.ledger.Region(name), r.shown[name]
		s := Status{
			Name: name, Own: name == r.cfg.Name, Epoch: is.Epoch, Seq: is.Seq, Gone: is.gone, Linked: linked[name], Lag: is.lag, Bytes: is.bytes,
			Wrong: of.Audit.Wrong, Base: of.Building(), Started: is.note != nil,
		}
		if is.Epoch > 0 {
			s.AsOf, s.Heard = time.UnixMilli(is.at), now.Sub(is.heard)
		}
		if is.note != nil {
			s.Every, s.Late, s.Keys = is.note.Every, is.note.Late, is.note.Keys
		}
		if s.AsOf.After(now) {
			s.AsOf = now
		}
		s.Behind = !s.Gone && (s.Epoch == 0 || s.Heard > s.Every+lateAfter || len(s.Late) == 0 && now.Sub(s.AsOf) > 2*s.Every+lateAfter)
		delete(linked, name)
		list = append(list, s)
	}
	for name := range linked {
		list = append(list, Status{Name: name, Linked: true, Behind: true})
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// LinkStatus is how a link of this region does, as this node knows: of one that is not the owner nothing is known.
type LinkStatus struct {
	Region  string
	URL     string
	Up      bool
	Why     string        // it is not up
	For     time.Duration // that it is, or is not
	Bytes   uint64        // that came since the start
	Rate    float64       // of the last 10 s, bytes per second
	Retries uint64
}

// Links are those of this region.
func (r *Region) Links() (list []LinkStatus) {
	now := time.Now()
	for _, l := range r.links {
		l.mu.Lock()
		s := LinkStatus{Region: l.Region, URL: l.URL, Up: l.running.Load(), Why: l.failure, Bytes: l.total.Load(), Rate: l.rate(), Retries: l.tries}
		if !l.since.IsZero() {
			s.For = now.Sub(l.since)
		}
		l.mu.Unlock()
		list = append(list, s)
	}
	return list
}

// Figures are those of the log and of what this node does with it.
type Figures struct {
	Owner   bool   // this node writes the log
	Last    uint64 // message of the log that was read
	Feeds   int64  // other regions that pull from this node now
	Sent    uint64 // bytes to them
	Damaged uint64 // messages of the log that could not be read
	Unread  uint64 // parts of flushes that the journal lost, and no digest has
	Missing uint64 // messages that the windows of other regions could not take
	Failure string // why nothing is written or read now; "": it is
	Failing time.Duration
}

// Figures returns them.
func (r *Region) Figures() Figures {
	own, _ := r.owner.who()
	f := Figures{Owner: own, Feeds: r.figures.feeds.Load(), Sent: r.figures.sent.Load(), Missing: r.unviewed.Load()}
	r.mu.Lock()
	f.Last, f.Damaged, f.Unread = r.ledger.Next()-1, r.damaged, r.unread
	r.mu.Unlock()
	r.figures.mu.Lock()
	defer r.figures.mu.Unlock()
	if f.Failure = r.figures.failure; f.Failure != "" {
		f.Failing = time.Since(r.figures.since)
	}
	return f
}

// ErrUnknownRegion is the error for a region that nothing is known of.
var ErrUnknownRegion = errors.New("no region of that name is known")

// ErrOwnRegion is the error for forgetting the region itself.
var ErrOwnRegion = errors.New("it is this region: stop it, and forget it in another")

// Forget drops all hits of a region, here and wherever links lead: it is gone for good. If it comes
// back after all, it does with all its hits, in a new epoch.
func (r *Region) Forget(ctx context.Context, name string) error {
	if name == r.cfg.Name {
		return ErrOwnRegion
	}
	ask := forgetting{name, make(chan error, 1)}
	select {
	case r.forgets <- ask:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ended:
		return errClosed
	}
	select {
	case err := <-ask.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forgetting asks the goroutine that runs to forget a region.
type forgetting struct {
	name string
	done chan error // holds one
}

func (r *Region) forget(ctx context.Context, name string) error {
	for range 10 { // another node appends too
		if err := r.follow(ctx); err != nil {
			return err
		}
		of := r.ledger.Region(name)
		if of == nil || of.Epoch == 0 {
			return fmt.Errorf("%w: %s", ErrUnknownRegion, name)
		}
		if of.Gone {
			return nil
		}
		if is := r.statusOf(name); !is.Behind {
			r.log.Warn("regions: a region is forgotten whose digests come: it is back with all its hits in a moment, unless it is stopped or its links are taken out", "region", name, "as_of", is.AsOf)
		}
		err := r.append(ctx, entry{data: Gone(name, of.Epoch+1, time.Now().UnixMilli())})
		if !errors.Is(err, errBehind) {
			return err
		}
	}
	return errBehind
}

// statusOf is that of one region.
func (r *Region) statusOf(name string) Status {
	list := r.Regions()
	return list[slices.IndexFunc(list, func(s Status) bool { return s.Name == name })]
}

// traffic is the bytes that came or went, in all and lately.
type traffic struct {
	total atomic.Uint64
	last  *weir.Counter
}

// rateOver is over what time bytes per second are a mean.
const rateOver = 10 * time.Second

func newTraffic() traffic {
	last, err := weir.NewCounter(2 * rateOver)
	if err != nil {
		panic(err) // whole seconds within bounds
	}
	return traffic{last: last}
}

func (t *traffic) add(bytes int) {
	t.total.Add(uint64(bytes))
	t.last.HitN(uint64(bytes))
}

// rate is in bytes per second.
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
	behind atomic.Uint64 // messages of the log that it is still to be sent
}

// pulls are those of all regions that have pulled since the start. The zero pulls are ready for use.
type pulls struct {
	mu sync.Mutex
	by map[string]*pull
}

// begin notes that a region pulls; who calls it takes 1 from now at the end.
func (p *pulls) begin(region string) *pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[string]*pull{}
	}
	of := p.by[region]
	if of == nil {
		if len(p.by) >= maxLinks {
			maps.DeleteFunc(p.by, func(_ string, of *pull) bool { return of.now.Load() == 0 })
		}
		of = &pull{traffic: newTraffic()}
		p.by[region] = of
	}
	of.now.Add(1)
	return of
}

// Pull is what one other region has pulled from this node since the start.
type Pull struct {
	Region string
	Now    bool    // it does
	Bytes  uint64  // sent to it
	Rate   float64 // of the last 10 s, bytes per second
	Behind uint64  // messages of the log that it is still to be sent, of those that are here
}

// Pulls are those of all regions, by name.
func (r *Region) Pulls() (list []Pull) {
	p := &r.figures.pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.by)) {
		of := p.by[name]
		one := Pull{Region: name, Now: of.now.Load() > 0, Bytes: of.total.Load(), Rate: of.rate()}
		if one.Now {
			one.Behind = of.behind.Load()
		}
		list = append(list, one)
	}
	return list
}
