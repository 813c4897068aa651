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
	perTick := float64(e.cfg.Partitions) / e.sweepPeriod().Seconds()
	for next, tick := 0, 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for due += perTick; due >= 1; due-- {
			e.keys.Expire(next)
			e.limits.Expire(next)
			next = (next + 1) % e.cfg.Partitions
		}
		e.limits.Lapse()
		if tick%10 == 9 {
			e.keys.CoolDown()
			e.lookAhead()
		}
	}
}

// lookAhead looks after what is ahead of the clock, which may have been set.
func (e *Engine) lookAhead() {
	e.keys.LookAhead()
	e.total.keep()
}
