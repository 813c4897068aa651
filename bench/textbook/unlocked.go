package textbook

// Unlocked is a Ring without its lock, as single-threaded texts write it. Two
// goroutines that hit the same second lose hits: each reads the old number,
// adds one, and writes it back. It is here to show that; the race detector
// reports it.
//
// Cost: as Ring, without the lock.
type Unlocked struct{ slots []slot }

// NewUnlocked returns an Unlocked for windows of up to window seconds.
func NewUnlocked(window int64) *Unlocked { return &Unlocked{make([]slot, window)} }

// Hit implements Counter, for one goroutine.
func (u *Unlocked) Hit(at int64) { u.slots[at%int64(len(u.slots))].hit(at) }

// Count implements Counter, for one goroutine.
func (u *Unlocked) Count(at, seconds int64) int64 { return sumAfter(u.slots, at-seconds) }
