package region

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
)

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
