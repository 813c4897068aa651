package main

import (
	"context"
	"sync"
	"time"

	"github.com/weir-counter/weir/client"
)

// flushWatch looks at a server's flushes, to know which of its plain hits are on disk when it is killed.
type flushWatch struct {
	mu   sync.Mutex
	seen []flushesSeen // with other numbers each, from the newest that is safe on
}

type flushesSeen struct {
	asked   time.Time
	flushes uint64 // on disk after that
}

// run looks until the server ends.
func (w *flushWatch) run(p *process) {
	c, err := client.New(p.addr, client.Options{Retries: -1})
	if err != nil {
		panic(err) // the address is the server's own
	}
	for {
		asked := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		stats, err := c.Stats(ctx)
		cancel()
		if err == nil && stats.Journal != nil { // else it is stopped, or cut off
			w.note(flushesSeen{asked, stats.Journal.Flushes})
		}
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *flushWatch) note(s flushesSeen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.seen) - 1; last >= 0 && w.seen[last].flushes == s.flushes {
		w.seen[last] = s
	} else {
		w.seen = append(w.seen, s)
	}
	for len(w.seen) > 1 && w.seen[1].flushes+2 <= s.flushes {
		w.seen = w.seen[1:]
	}
}

// safe is the time before which every hit that was answered is on disk: of two flushes since, the first may have been
// under way without it, and the second has it.
func (w *flushWatch) safe() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.seen) - 1; last >= 0 && w.seen[0].flushes+2 <= w.seen[last].flushes {
		return w.seen[0].asked
	}
	return time.Time{}
}
