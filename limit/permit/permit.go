// Package permit decides how many hold something at once: a permit is taken, kept by heartbeats, and given back; one whose
// holder is silent is free again after its time to live, never earlier.
//
// The package is pure: time is an argument, in ns by any clock that does not run back. There is no lock and no
// goroutine. What a Key does not know, because the process that knew it is gone, comes back by heartbeats: Adopt.
package permit

// Key is who holds permits of one key. The zero Key has no holders.
type Key struct {
	held []permit
}

type permit struct {
	id    uint64
	until int64
}

// Held is how many hold a permit at a time.
func (k *Key) Held(now int64) int {
	k.lapse(now)
	return len(k.held)
}

// Kept is how many holders are kept: also those whose time is over, until any other method but Note is called.
func (k *Key) Kept() int { return len(k.held) }

// Take gives a permit to a new holder, if fewer than most have one. Cost: O(holders), as of all methods.
func (k *Key) Take(now int64, id uint64, most int, ttl int64) bool {
	if k.Held(now) >= most {
		return false
	}
	k.held = append(k.held, permit{id, now + ttl})
	return true
}

// Renew is a heartbeat: the permit is held for ttl more. It is false for one that is not held, or no longer. A shorter ttl
// than before does not take back what was promised.
func (k *Key) Renew(now int64, id uint64, ttl int64) bool {
	k.lapse(now)
	for i := range k.held {
		if p := &k.held[i]; p.id == id {
			p.until = max(p.until, now+ttl)
			return true
		}
	}
	return false
}

// Adopt is Renew that takes the permit of a holder for one that it had before, if fewer than most are held.
func (k *Key) Adopt(now int64, id uint64, most int, ttl int64) bool {
	return k.Renew(now, id, ttl) || k.Take(now, id, most, ttl)
}

// Note is what another who decides for the key, or who did, says of a holder: it has a permit until then, if it has none for longer.
func (k *Key) Note(id uint64, until int64) {
	for i := range k.held {
		if p := &k.held[i]; p.id == id {
			p.until = max(p.until, until)
			return
		}
	}
	k.held = append(k.held, permit{id, until})
}

// Each calls f with all holders, and until when they hold a permit.
func (k *Key) Each(f func(id uint64, until int64)) {
	for _, p := range k.held {
		f(p.id, p.until)
	}
}

// Release gives a permit back; false: it was not held.
func (k *Key) Release(now int64, id uint64) bool {
	k.lapse(now)
	for i := range k.held {
		if k.held[i].id == id {
			k.held = append(k.held[:i], k.held[i+1:]...)
			return true
		}
	}
	return false
}

// Next is when the first permit is free if nobody renews or releases one; 0: none is held.
func (k *Key) Next() (at int64) {
	for _, p := range k.held {
		if at == 0 || p.until < at {
			at = p.until
		}
	}
	return at
}

// lapse forgets permits whose time is over.
func (k *Key) lapse(now int64) {
	kept := k.held[:0]
	for _, p := range k.held {
		if p.until > now {
			kept = append(kept, p)
		}
	}
	if k.held = kept; len(kept) == 0 {
		k.held = nil
	}
}
