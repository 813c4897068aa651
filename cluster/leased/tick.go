package leased

import (
	"context"
	"time"

	"github.com/weir-counter/weir"
)

// tickEvery is how often the node looks whether it should ask for more, report or give back: as often
// as the shortest pace, while it has anything.
const tickEvery = 5 * time.Millisecond

// tick asks holders for what is due, though no request waits for it.
func (l *Leased) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		due, some := l.due()
		for group, entries := range due {
			for len(entries) > 0 {
				part := entries[:min(len(entries), weir.MaxChecks)]
				entries = entries[len(part):]
				l.running.Go(func() { l.report(group, part) })
			}
		}
		if !some {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// due are the entries of each group that are due, which are busy from now on; some tells whether there
// are any that may be later. Of a group that is being asked none is.
func (l *Leased) due() (due map[int][]*entry, some bool) {
	now := l.side.Now()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for e := range sh.lent {
			switch {
			case !e.Lent() || e.Idle(now, e.terms):
				delete(sh.lent, e)
				continue
			case e.busy == nil && e.Due(now, e.terms):
				group := l.Group(e.key.key)
				if !l.asking[group].Load() {
					if due == nil {
						due = map[int][]*entry{}
					}
					e.busy = make(chan struct{})
					due[group] = append(due[group], e)
				}
			}
			some = true
		}
		sh.mu.Unlock()
	}
	return due, some
}

// report asks for entries of one group, and releases them.
func (l *Leased) report(group int, entries []*entry) {
	l.asking[group].Store(true)
	defer l.asking[group].Store(false)
	// What is lost is said again: all that is told are totals.
	_, _ = l.message(group, func(k int) (*weir.Check, *entry) { return nil, entries[k] }, make([]uint64, len(entries)))
	for _, e := range entries {
		l.release(e)
	}
}
