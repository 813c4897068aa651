package admission

import (
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// A permit says that a holder is one of so many at work at once for a key, under the limit of a name. In a cluster one node decides
// for all, as it does strict limits. All know who holds what, of all keys, so the node that decides
// next frees no permit early, and forgets none.

const (
	// MaxPermits bounds the permits that are taken in one table. Permits of other nodes are in addition.
	MaxPermits = 100_000

	// maxPermit is for how long a permit is held at most, after a heartbeat.
	maxPermit = time.Hour
)

// Permitted is what became of a request about a permit.
type Permitted struct {
	OK   bool          // it is held; to ReleasePermit: it was
	Held int           // how many are
	Wait time.Duration // of a denied one: until the first is free, if nobody renews or releases
}

// PermitRequest is what a holder asks for.
type PermitRequest byte

const (
	TakePermit    PermitRequest = iota // a permit, if fewer than most have one
	RenewPermit                        // a heartbeat
	ReleasePermit                      // to give it back
)

// Permit does what a holder asks for a key; the journal gets it if it is OK. The limit's N is how many may hold a permit, and its
// Per how long a permit lasts after a heartbeat. A repeated TakePermit of a holder is RenewPermit, unless more than N are held. Then
// the holder may be known only from a former owner, which journaled it late and never answered.
func (l *KeyedLimit) Permit(do PermitRequest, key string, holder uint64) (p Permitted, err error) {
	if err := keyspace.CheckKey(key); err != nil {
		return p, err
	}
	ls, rule := l.table, l.Limit()
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	if err := ls.RefusesChange(); err != nil {
		return p, err
	}
	now, most, lasts := ls.Clock.Now(), int(rule.N), int64(rule.Per)
	ls.holders(s, keyID{l.name.Name, key}, func(k *PermitKey) {
		switch {
		case do == ReleasePermit:
			p.OK, lasts = k.Release(now, holder), 0
		case do == RenewPermit || k.Held(now) <= most && k.index(holder) >= 0:
			p.OK = k.Renew(now, holder, lasts)
		case ls.permits.Load() >= MaxPermits:
			err = overloaded("100,000 permits are held, or were a moment ago, which is all that a node keeps: try again later")
		default:
			if p.OK = k.Take(now, holder, most, lasts); !p.OK {
				p.Wait = time.Duration(k.Next() - now)
			}
		}
		p.Held = k.Held(now)
	})
	if p.OK {
		ls.record(s, &replication.Permit{ChangeOf: ls.changeOf(l.name.Name, key), Holder: holder, For: lasts})
	}
	return p, err
}

// holders calls f with who holds a key, and keeps count. The caller holds s.mu.
func (ls *Table) holders(s *share, id keyID, f func(k *PermitKey)) {
	k := s.permits[id]
	if k == nil {
		k = new(PermitKey)
	}
	before := k.Kept()
	f(k)
	after := k.Kept()
	ls.permits.Add(int64(after - before))
	switch {
	case after == 0:
		delete(s.permits, id)
	case before == 0:
		if s.permits == nil {
			s.permits = map[keyID]*PermitKey{}
		}
		s.permits[id.clone()] = k
	}
}

// applyPermit is what a journal has of a holder. Clocks of nodes differ: its permit counts for
// somewhat longer. The caller holds s.mu.
func (ls *Table) applyPermit(s *share, c *replication.Permit, now int64) {
	ls.holders(s, keyID{c.Name, c.Key}, func(k *PermitKey) {
		until := min(min(ls.timeOf(c.At, now)+int64(strictSlack), now)+c.For, now+int64(maxPermit+strictSlack))
		switch {
		case c.For == 0:
			k.Release(now, c.Holder)
		case until > now:
			k.Note(c.Holder, until)
		}
	})
}

// Permits calls f with each key that has permits held, as far as this engine knows, by the name of the limit. f must
// not call the engine. O(permits).
func (ls *Table) Permits(f func(name, key string, held int)) {
	if ls.permits.Load() == 0 {
		return
	}
	now := ls.Clock.Now()
	ls.eachShare(func(_ int, s *share) {
		for id := range s.permits {
			ls.holders(s, id, func(k *PermitKey) {
				if held := k.Held(now); held > 0 {
					f(id.name, id.key, held)
				}
			})
		}
	})
}

// The code below decides how many hold something at once: a permit is taken, kept by heartbeats, and given back; one whose
// holder is silent is free again after its time to live, never earlier.
//
// The package is pure: time is an argument, in ns by any clock that does not run back. There is no lock and no
// goroutine.

// PermitKey has the holders of permits of one key. The zero PermitKey has none.
type PermitKey struct {
	held []permit
}

type permit struct {
	id    uint64
	until int64
}

// Held is how many hold a permit at a time.
func (k *PermitKey) Held(now int64) int {
	k.lapse(now)
	return len(k.held)
}

// Kept is how many holders are kept: also those whose time is over, until any other method but Note is called.
func (k *PermitKey) Kept() int { return len(k.held) }

// Take gives a permit to a new holder, if fewer than most have one. Cost: O(holders), as of all methods.
func (k *PermitKey) Take(now int64, id uint64, most int, ttl int64) bool {
	if k.Held(now) >= most {
		return false
	}
	k.held = append(k.held, permit{id, now + ttl})
	return true
}

// Renew is a heartbeat: the permit is held for ttl more. It is false for one that is not held, or no longer. A shorter ttl
// than before does not take back what was promised.
func (k *PermitKey) Renew(now int64, id uint64, ttl int64) bool {
	k.lapse(now)
	held := k.index(id) >= 0
	if held {
		k.Note(id, now+ttl)
	}
	return held
}

func (k *PermitKey) index(id uint64) int {
	return slices.IndexFunc(k.held, func(p permit) bool { return p.id == id })
}

// Note records what another node that decides for the key, or did so, says of a holder: its permit lasts at least until then.
func (k *PermitKey) Note(id uint64, until int64) {
	if i := k.index(id); i >= 0 {
		k.held[i].until = max(k.held[i].until, until)
	} else {
		k.held = append(k.held, permit{id, until})
	}
}

// Each calls f with all holders, and until when they hold a permit.
func (k *PermitKey) Each(f func(id uint64, until int64)) {
	for _, p := range k.held {
		f(p.id, p.until)
	}
}

// Release gives a permit back; false: it was not held.
func (k *PermitKey) Release(now int64, id uint64) bool {
	k.lapse(now)
	i := k.index(id)
	if i >= 0 {
		k.held = slices.Delete(k.held, i, i+1)
	}
	return i >= 0
}

// Next is when the first permit is free if nobody renews or releases one; 0: none is held.
func (k *PermitKey) Next() (at int64) {
	for _, p := range k.held {
		if at == 0 || p.until < at {
			at = p.until
		}
	}
	return at
}

// lapse forgets permits whose time is over.
func (k *PermitKey) lapse(now int64) {
	k.held = slices.DeleteFunc(k.held, func(p permit) bool { return p.until <= now })
}
