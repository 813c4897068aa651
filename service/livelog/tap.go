package livelog

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
)

// Kept is how many hits, and how many denials, a tap keeps.
const Kept = 100

// Event is a hit, or a denial.
type Event struct {
	Number uint64    // of its tap, from 1
	At     time.Time // when this node took it
	Of     time.Time // the hit's own time
	Key    string    // of a denial the one that was asked
	N      uint64
	Limit  string // that denied it; "": a hit
	Denial string // its ID; "": it has none
}

// Reader is what somebody may see, and wants to.
type Reader struct {
	Keys []string // hits of keys that begin with one of these
	// Sees tells whether a denial by a limit is among it, by a key: the one that was asked, or the one that is counted.
	Sees func(limit, key string) bool
}

func (r *Reader) seesHit(key string) bool {
	for _, prefix := range r.Keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// seesDenial: who may not know of one limit that said no is not told that there was a denial.
func (r *Reader) seesDenial(requests []admit.Request, d *admit.Decision) bool {
	for i := range d.Results {
		said := &d.Results[i]
		if said.Allowed || said.Mode != policy.Enforce {
			continue
		}
		if !r.Sees(said.Name, said.Key) || !r.Sees(said.Name, requests[said.Asked].Key) {
			return false
		}
	}
	return r.seesHit(requests[d.Denied.Asked].Key)
}

// Tap is what one kind of reader sees.
type Tap struct {
	log          *Log
	name, client string
	readers      int // guarded by log.mu
	who          Reader

	hits, denials sample

	mu             sync.Mutex
	since          time.Time // the interval that is under way began
	number         uint64
	shown, stopped []Event // the newest hits and denials, the oldest first
}

// Share says how much of an interval is shown.
type Share struct {
	Shown int    // how many
	OneIn uint64 // each had the chance of one in so many; 1: all are shown
}

// View is what a tap has at the end of an interval.
type View struct {
	Since, At     time.Time // the interval
	Events        []Event   // the newest first, also those of intervals before
	Hits, Denials Share     // of the interval
}

// View ends an interval and begins the next.
func (t *Tap) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := View{Since: t.since, At: t.log.now()}
	t.since = v.At
	t.shown, v.Hits = t.took(&t.hits, t.shown)
	t.stopped, v.Denials = t.took(&t.denials, t.stopped)
	v.Events = append(slices.Clone(t.shown), t.stopped...)
	slices.SortFunc(v.Events, func(a, b Event) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Number, a.Number)) })
	return v
}

// took adds an interval's events to those before, and forgets the oldest.
func (t *Tap) took(from *sample, kept []Event) ([]Event, Share) {
	before := len(kept)
	kept, oneIn := from.take(kept)
	for i := before; i < len(kept); i++ {
		t.number++
		kept[i].Number = t.number
	}
	share := Share{len(kept) - before, oneIn}
	if over := len(kept) - Kept; over > 0 {
		kept = slices.Delete(kept, 0, over)
	}
	return kept, share
}

// Close ends what one Open began.
func (t *Tap) Close() { t.log.close(t) }
