package denials

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

const (
	// MostLimited is how many keys are known as limited at once, counted for each limit.
	MostLimited = Sets * limitedPerSet

	// Pause ends a row of denials: a key that is denied after so long without one is counted from
	// one again.
	Pause = 5 * time.Minute

	limitedPerSet = 32
)

// Limited is a key that a limit has denied.
type Limited struct {
	Name, Key   string
	Inline      bool // a request brought the limit along
	Limit       limit.Limit
	Denied      uint64    // requests, since Since
	Since, Last time.Time // the first and the last of them
	Until       time.Time // when one like the last would pass
}

type limited struct {
	Limited
	hash uint64
}

// limited counts a denial of a key.
func (r *Ring) limited(now time.Time, said *policy.Result, inline bool) {
	hash := r.hash(said.Name, said.Key)
	s := &r.sets[hash%Sets]
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.find(hash, said)
	if of == nil {
		of = s.room(now)
		*of = limited{hash: hash, Limited: Limited{Name: strings.Clone(said.Name), Key: strings.Clone(said.Key)}}
	}
	if of.Denied == 0 || now.Sub(of.Last) > Pause {
		of.Since, of.Denied = now, 0
	}
	of.Denied++
	of.Limit, of.Inline, of.Last, of.Until = said.Limit, inline, now, now.Add(said.RetryAfter)
}

func (s *set) find(hash uint64, said *policy.Result) *limited {
	for i := range s.who {
		if of := &s.who[i]; of.hash == hash && of.Key == said.Key && of.Name == said.Name {
			return of
		}
	}
	return nil
}

// room is a place for another key: a free one, or that of the key that was denied least, and of
// one that has not been denied for long before that.
func (s *set) room(now time.Time) *limited {
	if len(s.who) < limitedPerSet {
		s.who = append(s.who, limited{})
		return &s.who[len(s.who)-1]
	}
	least := &s.who[0]
	for i := range s.who[1:] {
		of := &s.who[i+1]
		old, oldest := now.Sub(of.Last) > Pause, now.Sub(least.Last) > Pause
		if old && !oldest || old == oldest && of.Denied < least.Denied {
			least = of
		}
	}
	if now.Sub(least.Last) <= Pause {
		s.over++
	}
	return least
}

// Who lists the keys that were denied after a time, most denied first, at most most of them that keep
// takes; over is how many left the list, since the start, though they had been denied lately.
func (r *Ring) Who(after time.Time, most int, keep func(*Limited) bool) (list []Limited, over uint64) {
	for i := range r.sets {
		s := &r.sets[i]
		s.mu.Lock()
		for j := range s.who {
			if of := &s.who[j].Limited; of.Last.After(after) && keep(of) {
				list = append(list, *of)
			}
		}
		over += s.over
		s.mu.Unlock()
	}
	slices.SortFunc(list, Limited.Compare)
	return list[:min(most, len(list))], over
}

// Compare orders as Who does.
func (l Limited) Compare(o Limited) int {
	return cmp.Or(cmp.Compare(o.Denied, l.Denied), o.Last.Compare(l.Last), cmp.Compare(l.Name, o.Name), cmp.Compare(l.Key, o.Key))
}
