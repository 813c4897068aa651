package activity

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

// This file shows people hits and denials as they arrive: all if they are few, else a sample that eyes can follow.
//
// Invariants. While nobody watches, a hit costs one load of a pointer. Each watcher has a Tap. Within an interval each
// hit that a tap may show has the same chance to be shown. The chance is reported; the same holds for denials,
// separately. An interval shows at most PerTick of either. A tap keeps the newest KeptEvents of either. There are at most
// MaxTaps, and one client has at most MaxOwn of them.
//
// Package service notes what it counts and denies, and says what a caller may see.

const (
	// MaxTaps bounds the taps: each costs a hit a few nanoseconds.
	MaxTaps = 16
	// MaxOwn is the share of one client.
	MaxOwn = MaxTaps - MaxTaps/4
	// tapLife is how long a tap is open that nobody views.
	tapLife = 10 * time.Second
)

var (
	// ErrTapsFull answers the client of a tap beyond MaxTaps.
	ErrTapsFull = &api.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("%d different live logs are open: look at one of those, or close some", MaxTaps)}
	// ErrShare answers a client that has MaxOwn taps.
	ErrShare = &api.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("you look at %d different live logs, your share: close some, so that others can look too", MaxOwn)}
)

// Log receives all hits and denials. It is safe for many goroutines.
type Log struct {
	now  func() time.Time
	taps atomic.Pointer[[]*Tap] // nil: nobody looks; written under mu

	mu sync.Mutex
}

// NewLog returns a Log; now is the time of day.
func NewLog(now func() time.Time) *Log { return &Log{now: now} }

// Hit notes a hit that was counted. at is its own time; key may change after it.
func (l *Log) Hit(at time.Time, key string, n uint64) {
	if taps := l.taps.Load(); taps != nil {
		l.hit(*taps, at, key, n)
	}
}

func (l *Log) hit(taps []*Tap, at time.Time, key string, n uint64) {
	for _, t := range taps {
		halved := t.hits.halved.Load()
		if drawn(halved) && t.who.seesHit(key) {
			now := l.now()
			e := api.LogEvent{Kind: "hit", At: api.Millis(now), Key: strings.ToValidUTF8(strings.Clone(key), "\ufffd"), N: n}
			if now.Sub(at).Abs() >= ownTime {
				its := api.Millis(at)
				e.Of = &its
			}
			t.hits.add(e, halved)
		}
	}
}

// Denial notes a decision that is a denial, which has its ID, if it has one.
func (l *Log) Denial(requests []admit.Request, d *admit.Decision) {
	taps := l.taps.Load()
	if taps == nil || d.Denied == nil {
		return
	}
	for _, t := range *taps {
		halved := t.denials.halved.Load()
		if drawn(halved) && t.who.seesDenial(requests, d) {
			t.denials.add(api.LogEvent{
				Kind: "denial", At: api.Millis(l.now()), Key: strings.ToValidUTF8(strings.Clone(requests[d.Denied.Asked].Key), "\ufffd"),
				N: d.Denied.N, Limit: strings.Clone(d.Denied.Name), Denial: string(d.Denial),
			}, halved)
		}
	}
}

// View returns what the tap of a name has now. It ends an interval of the tap and begins the next. The first View opens the
// tap, for the Reader that all Views of the name must have.
func (l *Log) View(name, client string, who Reader) (api.LogView, error) {
	t, err := l.open(name, client, who)
	if err != nil {
		return api.LogView{}, err
	}
	return t.view(), nil
}

// open returns the tap of a name, which stays open for tapLife from now.
func (l *Log) open(name, client string, who Reader) (*Tap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taps []*Tap
	if open := l.taps.Load(); open != nil {
		taps = *open
	}
	own := 0
	for _, t := range taps {
		if t.name == name {
			t.until = time.Now().Add(tapLife)
			t.end.Reset(tapLife)
			return t, nil
		}
		if t.client == client {
			own++
		}
	}
	switch {
	case own >= MaxOwn:
		return nil, ErrShare
	case len(taps) >= MaxTaps:
		return nil, ErrTapsFull
	}
	t := &Tap{log: l, name: name, client: client, who: who, since: l.now(), until: time.Now().Add(tapLife)}
	t.end = time.AfterFunc(tapLife, func() { l.close(t) })
	l.use(append(slices.Clone(taps), t))
	return t, nil
}

// use replaces the taps that receive hits and denials. The caller holds mu.
func (l *Log) use(taps []*Tap) {
	if len(taps) == 0 {
		l.taps.Store(nil)
		return
	}
	l.taps.Store(&taps)
}

// close closes a tap, unless it was viewed while its time ended.
func (l *Log) close(t *Tap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(t.until) {
		l.use(slices.DeleteFunc(slices.Clone(*l.taps.Load()), func(other *Tap) bool { return other == t }))
	}
}

// PerTick is how many hits, and how many denials, an interval between two views shows at most.
const PerTick = 10

// sample keeps a few of many events. Each event has the same chance, which is halved for all whenever there are too many.
// So of n events only some PerTick * log2(n / PerTick) come to the lock.
type sample struct {
	halved atomic.Uint32 // the chance is one in 2^halved; written under mu

	mu   sync.Mutex
	list []api.LogEvent
}

// drawn is whether an event comes into a sample whose chance is one in 2^halved.
func drawn(halved uint32) bool { return halved == 0 || rand.Uint64()&(1<<halved-1) == 0 }

// add adds an event that was drawn with the chance of one in 2^halved.
func (s *sample) add(e api.LogEvent, halved uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.halved.Load()
	if now > halved && !drawn(now-halved) { // it was halved meanwhile
		return
	}
	s.list = append(s.list, e)
	for len(s.list) > PerTick {
		s.list = slices.DeleteFunc(s.list, func(api.LogEvent) bool { return drawn(1) })
		s.halved.Add(1)
	}
}

// take ends an interval. It returns its events, the oldest first; each event had a chance of one in oneIn.
func (s *sample) take(to []api.LogEvent) (all []api.LogEvent, oneIn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, oneIn = append(to, s.list...), 1<<s.halved.Load()
	clear(s.list)
	s.list = s.list[:0]
	s.halved.Store(0)
	return all, oneIn
}

// KeptEvents is how many hits, and how many denials, a tap keeps.
const KeptEvents = 100

// Reader is what somebody may see, and wants to.
type Reader struct {
	Keys []string // hits of keys that begin with one of these
	// Sees reports whether a denial by a limit is among it, by a key: the one that was asked, or the one that is counted.
	Sees func(limit, key string) bool
}

func (r *Reader) seesHit(key string) bool {
	return slices.ContainsFunc(r.Keys, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// seesDenial reports whether the reader may know about a denial. The reader must see the key, and every limit that
// denied the request.
func (r *Reader) seesDenial(requests []admit.Request, d *admit.Decision) bool {
	for i := range d.Results {
		said := &d.Results[i]
		if denies(said) && (!r.Sees(said.Name, said.Key) || !r.Sees(said.Name, requests[said.Asked].Key)) {
			return false
		}
	}
	return r.seesHit(requests[d.Denied.Asked].Key)
}

// Tap is what one kind of reader sees.
type Tap struct {
	log          *Log
	name, client string
	who          Reader
	until        time.Time // guarded by log.mu
	end          *time.Timer

	hits, denials sample

	mu             sync.Mutex
	since          time.Time // the interval that is under way began
	number         uint64
	shown, stopped []api.LogEvent // the newest hits and denials, the oldest first
}

func (t *Tap) view() api.LogView {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := api.LogView{Since: api.Millis(t.since)}
	t.since = t.log.now()
	v.At = api.Millis(t.since)
	t.shown, v.Hits = t.took(&t.hits, t.shown)
	t.stopped, v.Denials = t.took(&t.denials, t.stopped)
	v.Events = append(append([]api.LogEvent{}, t.shown...), t.stopped...)
	slices.SortFunc(v.Events, func(a, b api.LogEvent) int { return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(b.Number, a.Number)) })
	return v
}

// took adds an interval's events to those before, and forgets the oldest.
func (t *Tap) took(from *sample, kept []api.LogEvent) ([]api.LogEvent, api.LogShare) {
	before := len(kept)
	kept, oneIn := from.take(kept)
	for i := before; i < len(kept); i++ {
		t.number++
		kept[i].Number = t.number
	}
	share := api.LogShare{Shown: len(kept) - before, OneIn: oneIn}
	if over := len(kept) - KeptEvents; over > 0 {
		kept = slices.Delete(kept, 0, over)
	}
	return kept, share
}

// The code below is the live log for those who look: whose hits and denials a caller may see, and what a view of them says.

// ownTime is the difference between a hit's own time and its arrival from which the log shows both.
const ownTime = 2 * time.Second

// Live shows the log.
type Live struct {
	gate *access.Gate
	log  *Log
	node string // this one's name in a cluster
}

// NewLive returns a Live of a log in which all hits and denials of a node are noted.
func NewLive(gate *access.Gate, log *Log, node string) *Live { return &Live{gate, log, node} }

// LogView returns the hits and denials of keys that begin with prefix, as far as the caller may read them now, since the
// LogView before. Callers that see the same share one tap.
func (s *Live) LogView(c access.Caller, prefix string) (api.LogView, error) {
	may, parts, err := s.gate.EnterPrefix(c, auth.Read, prefix)
	if err != nil {
		return api.LogView{}, err
	}
	scope := ""
	if is, err := s.gate.Identity(c); err != nil {
		return api.LogView{}, err
	} else if is != nil {
		scope = is.Scope()
	}
	v, err := s.log.View(fmt.Sprintf("%q %q %q", c.Name(), scope, prefix), c.String(), Reader{
		Keys: parts, Sees: func(limit, key string) bool { return may.Limit(limit) && may.Holds(key) },
	})
	v.Node = s.node
	return v, err
}
