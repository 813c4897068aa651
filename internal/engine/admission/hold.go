package admission

import (
	"strings"
	"time"

	"github.com/weir-counter/weir/limit"
)

// A hold is a part of a key's limit that somebody outside Weir may use without asking, for example an Envoy. It counts as used while
// it is renewed, and for a time after that. The journal has it as outstanding, with holdMark and the hold's ID as the holder. No node
// has such a name.
const holdMark = "/"

func (id outstandingID) isHold() bool { return strings.HasPrefix(id.holder, holdMark) }

// heldKey has the holds of one key of a limit.
type heldKey struct {
	holds map[outstandingID]*outstanding
	n     uint64 // of all, until the time until
	until int64
}

// noteHold notes that a hold is there, or has changed. The caller holds s.mu.
func (s *share) noteHold(id outstandingID, o *outstanding) {
	if s.held == nil {
		s.held = map[keyID]*heldKey{}
	}
	h := s.held[keyID{id.name, id.key}]
	if h == nil {
		h = &heldKey{holds: map[outstandingID]*outstanding{}}
		s.held[keyID{id.name, id.key}] = h
	}
	h.holds[id], h.until = o, 0
}

// forgetHold forgets a hold that is over. The caller holds s.mu.
func (s *share) forgetHold(id outstandingID) {
	key := keyID{id.name, id.key}
	if h := s.held[key]; h != nil && id.isHold() {
		h.until = 0
		if delete(h.holds, id); len(h.holds) == 0 {
			delete(s.held, key)
		}
	}
}

// heldOf is how much is held of a key. The caller holds s.mu.
func (s *share) heldOf(plan *Plan, key string, now int64) uint64 {
	if len(s.held) == 0 {
		return 0
	}
	h := s.held[keyID{plan.Name.Name, key}]
	if h == nil {
		return 0
	}
	if now >= h.until {
		h.n, h.until = 0, limit.MaxPer.Nanoseconds()+now
		for _, o := range h.holds {
			if o.until > now {
				h.n, h.until = h.n+o.n, min(h.until, o.until)
			}
		}
	}
	return h.n
}

// takeWith is Take of a key with a grant or a hold, or of a limit that the journal may refuse. The caller holds the share's lock.
func (ls *Table) takeWith(a request, now int64) (v limit.Verdict, err error) {
	if v = a.peek(now, a.N); !v.Allowed || a.N == 0 {
		return v, nil
	}
	if err := ls.refusesTake(a.plan); err != nil {
		return limit.Verdict{}, err
	}
	ls.takePeeked(&a, &v, now)
	return v, nil
}

// Held is what SetHold is asked for.
type Held struct {
	ID   string        // who holds; another for each
	Seq  uint64        // of the ID's requests: one that comes after a later one changes nothing
	Need uint64        // the least that stays held, as far as it was held before
	Want uint64        // what would be used
	Life time.Duration // how long the hold counts, and after that an interval of the limit longer
}

// holdAsks is for how long a hold counts among those that want something.
const holdAsks = int64(15 * time.Second)

// SetHold holds a part of a key's limit, in place of what the ID held before. n is held from now on. All that hold of the key have a
// claim to what they want, or else to a share by what they want: share is the ID's. It may be less than Need, the rest of which is then to
// be given up. out is what is out of the limit in other ways.
func (l *KeyedLimit) SetHold(key string, asked Held, out uint64) (n, share uint64, err error) {
	ls, plan := l.table, l.plan.Load()
	now := ls.Clock.Now()
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	id := outstandingID{plan.Name.Name, strings.Clone(key), holdMark + asked.ID}
	had, others, idle, wants := uint64(0), out, out, float64(asked.Want)
	if h := s.held[keyID{id.name, id.key}]; h != nil {
		for other, o := range h.holds {
			switch {
			case o.until <= now:
			case other == id:
				had = o.n
				if asked.Seq < o.seq {
					return 0, 0, nil
				}
			default:
				if others += o.n; now-o.at <= holdAsks {
					wants += float64(o.want)
				} else {
					idle += o.n
				}
			}
		}
	}
	if had == 0 {
		if err := ls.refusesTake(plan); err != nil {
			return 0, 0, err
		}
		if ls.full() {
			return 0, 0, overloaded("the memory of limits is full: raise LimitMemory (weir serve --limit-memory), or use fewer keys")
		}
	}
	state := ls.look(s, plan, key, now)
	left := plan.Peek(&state.Value.state, now, 0).Remaining
	free := left - min(left, others)
	share = asked.Want
	if pool := float64(left - min(left, idle)); wants > pool {
		share = uint64(pool * float64(asked.Want) / wants)
	}
	n = max(min(share, had+(free-min(free, had)+1)/2, free), min(asked.Need, had))
	until := now + holdAsks // of what nobody has
	if n > 0 {
		until = now + int64(asked.Life+plan.Interval())
		if plan.Limit().Calendar.Unit != limit.NoUnit {
			until += int64(longerPeriod)
		}
	}
	ls.setOut(s, id, outstanding{n: n, at: now, until: until, want: asked.Want, seq: asked.Seq})
	return n, share, nil
}

// longerPeriod is more than by how much one period of a calendar is longer than another.
const longerPeriod = 5 * 24 * time.Hour
