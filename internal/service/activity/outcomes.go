package activity

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/policy"
)

// This file counts the outcomes of policies, for metrics.
//
// Invariant: clients can't make it grow. Its names are the policies that this process has had, and one name for all
// limits that requests define.

// inlineName stands for all limits that requests bring along: their names are the clients' and may be many.
const inlineName = "(inline)"

// OutcomeCounts counts decisions by policy and outcome. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
type OutcomeCounts struct {
	policies *admit.Live
	byName   atomic.Pointer[map[string]*outcomes]
	adding   sync.Mutex // held to put another map in the place of byName

	inline    outcomes      // of limits that requests bring along
	unmatched atomic.Uint64 // requests that no policy is for
}

// outcomes counts the decisions of one policy.
type outcomes struct{ allowed, denied, shadowDenied, excepted atomic.Uint64 }

// NewOutcomes counts for policies, none so far.
func NewOutcomes(policies *admit.Live) *OutcomeCounts {
	d := &OutcomeCounts{policies: policies}
	d.byName.Store(&map[string]*outcomes{})
	return d
}

// Count counts a decision in the same way as its hits. If another limit denied the request, a limit that did not deny
// counts nothing. A request with n = 0 counts nothing.
func (d *OutcomeCounts) Count(decision *admit.Decision) {
	if decision.Unmatched {
		d.unmatched.Add(1)
	}
	for _, name := range decision.Excepted {
		d.named(name).excepted.Add(1)
	}
	for i := range decision.Results {
		r := &decision.Results[i]
		switch {
		case r.N == 0:
		case !r.Allowed && r.Mode == policy.Shadow:
			d.outcomesOf(r).shadowDenied.Add(1)
		case !r.Allowed:
			d.outcomesOf(r).denied.Add(1)
		case decision.Allowed:
			d.outcomesOf(r).allowed.Add(1)
		}
	}
}

// Reported counts what somebody else decided under the limit of a name.
func (d *OutcomeCounts) Reported(name string, allowed, denied uint64) {
	counts := d.named(name)
	counts.allowed.Add(allowed)
	counts.denied.Add(denied)
}

func (d *OutcomeCounts) outcomesOf(r *admit.Result) *outcomes {
	if r.Inline {
		return &d.inline
	}
	return d.named(r.Name)
}

func (d *OutcomeCounts) named(name string) *outcomes {
	if _, known := d.policies.Limit(name); !known {
		return &d.inline
	}
	if have := (*d.byName.Load())[name]; have != nil {
		return have
	}
	d.adding.Lock()
	defer d.adding.Unlock()
	old := *d.byName.Load()
	if have := old[name]; have != nil {
		return have
	}
	grown := maps.Clone(old)
	made := new(outcomes)
	grown[name] = made
	d.byName.Store(&grown)
	return made
}

// OutcomeFigures are how often a policy decided how, since the start.
type OutcomeFigures struct {
	Limit        string `label:"limit"`
	Allowed      uint64 `metric:"weir_limit_decisions_total,outcome=allowed" doc:"Decisions of limits: allowed, denied, shadow_denied by a limit that is not enforced, or excepted from it by their address."`
	Denied       uint64 `metric:"weir_limit_decisions_total,outcome=denied"`
	ShadowDenied uint64 `metric:"weir_limit_decisions_total,outcome=shadow_denied"`
	Excepted     uint64 `metric:"weir_limit_decisions_total,outcome=excepted"`
}

func (o *outcomes) figures(name string) OutcomeFigures {
	return OutcomeFigures{name, o.allowed.Load(), o.denied.Load(), o.shadowDenied.Load(), o.excepted.Load()}
}

// List returns the figures of all policies, and how many requests matched none.
func (d *OutcomeCounts) List() (list []OutcomeFigures, unmatched uint64) {
	for name, counts := range *d.byName.Load() {
		list = append(list, counts.figures(name))
	}
	if inline := d.inline.figures(inlineName); inline != (OutcomeFigures{Limit: inlineName}) {
		list = append(list, inline)
	}
	return list, d.unmatched.Load()
}

const (
	// MostLimited is how many keys are known as limited at once, counted for each limit.
	MostLimited = Sets * limitedPerSet

	// Pause ends a row of denials: after so long without a denial, the count of a key begins again at one.
	Pause = 5 * time.Minute

	limitedPerSet = 32

	pauseSeconds = int64(Pause / time.Second)

	noRecord = math.MaxUint64 // for a number of one
)

// who has the limited keys of a set. The figures that each denial reads for all keys lie side by side.
type who struct {
	n      int
	tags   [limitedPerSet]uint32 // of the hashes of their keys
	last   [limitedPerSet]int64  // ns since 1970
	denied [limitedPerSet]uint64 // in the row that since begins
	newest [limitedPerSet]uint32 // in the second of last
	record [limitedPerSet]uint64 // the number of the newest record of each
	about  [limitedPerSet]limited
}

// limited has the other figures of a limited key.
type limited struct {
	name         string
	key          []byte // memory that is used again
	inline       bool
	since, until int64 // ns since 1970
	// seconds has the denials of each of the last pauseSeconds, by second modulo pauseSeconds. The second of last has 0
	// there; newest has its denials. The next key uses the array again.
	seconds *[pauseSeconds]uint32
}

// limited counts a denial of a key at a time in ns since 1970, and returns its place. The caller holds the lock.
func (s *set) limited(hash uint64, now int64, said *admit.Result) (place int) {
	if s.who == nil {
		s.who = new(who)
	}
	w := s.who
	i, known := w.find(uint32(hash>>32), said)
	if !known {
		i = s.freePlace(now)
		w.tags[i], w.denied[i], w.record[i] = uint32(hash>>32), 0, noRecord
		w.about[i].name, w.about[i].key = said.Name, append(w.about[i].key[:0], said.Key...)
	}
	about := &w.about[i]
	if pause := now - w.last[i]; w.denied[i] == 0 || pause > int64(Pause) || pause < -int64(Pause) {
		about.since, w.denied[i], w.newest[i] = now, 0, 0
		if about.seconds == nil {
			about.seconds = new([pauseSeconds]uint32)
		}
		clear(about.seconds[:])
	} else if now = max(now, w.last[i]); second(now) != second(w.last[i]) { // a clock may be set back a little
		last := second(w.last[i])
		about.seconds[last%pauseSeconds] = w.newest[i]
		for last++; last <= second(now); last++ {
			about.seconds[last%pauseSeconds] = 0
		}
		w.newest[i] = 0
	}
	w.newest[i]++
	w.denied[i]++
	w.last[i] = now
	about.inline, about.until = said.Inline, now+int64(said.RetryAfter)
	return i
}

func second(ns int64) int64 { return ns / int64(time.Second) }

// within counts the denials of a place in a window of 1 to pauseSeconds seconds. The window ends with the second of
// now, or with the second of the last denial if the clock was set back.
func (w *who) within(i int, now, seconds int64) (n uint64) {
	last := second(w.last[i])
	first := max(second(now), last) - seconds + 1
	if first <= last {
		n = uint64(w.newest[i])
	}
	for s := first; s < last; s++ {
		n += uint64(w.about[i].seconds[s%pauseSeconds])
	}
	return n
}

func (w *who) find(tag uint32, said *admit.Result) (place int, known bool) {
	for i, other := range w.tags[:w.n] {
		if other == tag {
			if about := &w.about[i]; string(about.key) == said.Key && about.name == said.Name {
				return i, true
			}
		}
	}
	return 0, false
}

// freePlace returns a place for another key: a free one, else the place of the key with the fewest denials. Keys that
// have not been denied for Pause lose their places first.
func (s *set) freePlace(now int64) (place int) {
	w := s.who
	if w.n < limitedPerSet {
		w.n++
		return w.n - 1
	}
	const lately = 1 << 63
	least, long := uint64(math.MaxUint64), now-int64(Pause)
	for i, last := range w.last {
		rank := w.denied[i]
		if last >= long {
			rank |= lately
		}
		if rank < least {
			place, least = i, rank
		}
	}
	if least&lately != 0 {
		s.over++
	}
	return place
}

func (w *who) limited(i int, denied uint64, now time.Time) api.LimitedKey {
	about := &w.about[i]
	return api.LimitedKey{
		Limit: about.name, Key: string(about.key), Inline: about.inline, Denied: denied, Since: api.Millis(time.Unix(0, about.since)), Last: api.Millis(time.Unix(0, w.last[i])),
		RetryAfterSeconds: request.Milliseconds(max(0, time.Unix(0, about.until).Sub(now))).Seconds(),
	}
}

// Who lists the keys that were denied within a window of 1 s to Pause that ends now, most denials first. It lists at
// most most keys, and only the ones for which keep returns true. The result over is how many keys left the list since
// the start although they had been denied lately.
func (r *Denials) Who(now time.Time, window time.Duration, most int, keep func(*api.LimitedKey) bool) (list []api.LimitedKey, over uint64) {
	for i := range r.sets {
		s := &r.sets[i]
		s.mu.Lock()
		for j := 0; s.who != nil && j < s.who.n; j++ {
			denied := s.who.within(j, now.UnixNano(), int64(window/time.Second))
			if denied == 0 {
				continue
			}
			if key := s.who.limited(j, denied, now); keep(&key) {
				number := s.who.record[j]
				if k := s.recordOf(number); k != nil && k.first.Name == key.Limit && string(k.first.key) == key.Key {
					key.Denial = string(r.ids.append(nil, number*Sets+uint64(i)))
				}
				list = append(list, key)
			}
		}
		over += s.over
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b api.LimitedKey) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), b.Last.Compare(a.Last.Time), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
	})
	return list[:min(most, len(list))], over
}
