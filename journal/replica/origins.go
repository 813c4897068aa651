package replica

import (
	"strconv"
)

// MergedWhole tells whether the last batch of a backup was applied.
func (r *Replica) MergedWhole(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.audit.byOrigin[id]
	return l != nil && l.left
}

// Knows tells which of some origins has batches here; id is passed over.
func (r *Replica) Knows(origins []uint64, id uint64) (origin uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, origin := range origins {
		if r.audit.byOrigin[origin] != nil && origin != id {
			return origin, true
		}
	}
	return 0, false
}

// Removed makes an origin one that has left, if nothing of it is here that is newer
// than at, Unix ms of its clock. Its next flush, if one comes, says otherwise.
func (r *Replica) Removed(origin string, at int64) bool {
	id, err := strconv.ParseUint(origin, 16, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.audit.byOrigin[id]
	if l == nil || l.at > at {
		return false
	}
	l.left = true
	return true
}
