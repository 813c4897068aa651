package livelog

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/policy/admit"
)

const (
	// MaxTaps bounds the taps: each costs a hit a few nanoseconds.
	MaxTaps = 16
	// MaxOwn is the share of one client.
	MaxOwn = MaxTaps - MaxTaps/4
)

var (
	// ErrFull is of a tap beyond MaxTaps.
	ErrFull = errors.New("livelog: too many different logs are open")
	// ErrShare is of a client that has MaxOwn taps.
	ErrShare = errors.New("livelog: this client has too many different logs open")
)

// Log is told of all hits and denials. It is safe for many goroutines.
type Log struct {
	now  func() time.Time
	taps atomic.Pointer[[]*Tap] // nil: nobody looks; written under mu

	mu sync.Mutex
}

// New returns a Log; now is the time of day.
func New(now func() time.Time) *Log { return &Log{now: now} }

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
			t.hits.add(Event{At: l.now(), Of: at, Key: strings.Clone(key), N: n}, halved)
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
			now := l.now()
			t.denials.add(Event{
				At: now, Of: now, Key: strings.Clone(requests[d.Denied.Asked].Key), N: d.Denied.N, Limit: strings.Clone(d.Denied.Name), Denial: string(d.Denial),
			}, halved)
		}
	}
}

// Open opens a tap, or one more time the tap of this name that is open: taps of one name must be for the same Reader. Close must follow.
func (l *Log) Open(name, client string, who Reader) (*Tap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taps []*Tap
	if open := l.taps.Load(); open != nil {
		taps = *open
	}
	own := 0
	for _, t := range taps {
		if t.name == name {
			t.readers++
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
		return nil, ErrFull
	}
	t := &Tap{log: l, name: name, client: client, readers: 1, who: who, since: l.now()}
	l.use(append(slices.Clone(taps), t))
	return t, nil
}

// use makes taps those that are told. The caller holds mu.
func (l *Log) use(taps []*Tap) {
	if len(taps) == 0 {
		l.taps.Store(nil)
		return
	}
	l.taps.Store(&taps)
}

func (l *Log) close(t *Tap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.readers--; t.readers == 0 {
		l.use(slices.DeleteFunc(slices.Clone(*l.taps.Load()), func(other *Tap) bool { return other == t }))
	}
}
