package weir

import (
	"context"
	"time"
)

// sweepPeriod is how long one round of the janitor takes: a tenth of the
// retention, within ten seconds and ten minutes, so that sweeping ten million
// keys stays far below one per cent of a core.
func (e *Engine) sweepPeriod() time.Duration {
	return min(max(e.cfg.Retention/10, 10*time.Second), 10*time.Minute)
}

// keepHouse lets keys go whose retention is over and limits that are not in use,
// and cools hot keys, until ctx is done. It looks at a few partitions a second.
func (e *Engine) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var due float64 // partitions
	perTick := float64(len(e.partitions)) / e.sweepPeriod().Seconds()
	for next, tick := 0, 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for due += perTick; due >= 1; due-- {
			e.expire(&e.partitions[next])
			e.limits.expire(&e.limits.shares[next])
			next = (next + 1) % len(e.partitions)
		}
		if tick%10 == 9 {
			e.coolDown()
			e.lookAhead()
		}
	}
}

// lookAhead has all partitions look after what is ahead of the clock, which may have been
// set. Where a journal cuts, they have.
func (e *Engine) lookAhead() {
	for i := range e.partitions {
		p := &e.partitions[i]
		p.mu.Lock()
		p.look(e)
		p.mu.Unlock()
	}
	e.total.keep()
}

// expire removes the partition's keys whose newest hit is older than the
// retention. It looks at them under the lock for a few buckets at a time.
func (e *Engine) expire(p *partition) {
	if p.away.Load() {
		return
	}
	limit := e.clock.now() - e.clock.retention
	t := p.table.Load()
	for i := range t.buckets {
		if t.buckets[i].tags.Load() == 0 {
			continue
		}
		p.mu.Lock()
		if p.table.Load() != t { // rebuilt: the next round sees the rest
			p.mu.Unlock()
			return
		}
		t.eachIn(i, func(en *entry) {
			if e.newestOf(en) > limit || p.table.Load() != t {
				return
			}
			total, newest := p.remove(e, en)
			p.forgotten.add(e, en.key, total, newest)
			e.departed.expiredKeys.Add(1)
		})
		p.mu.Unlock()
	}
}
