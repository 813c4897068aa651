package weir

import "time"

// Stats are an engine's figures since it was made. Hits are weighted by their n.
type Stats struct {
	Hits        uint64 // counted, late ones included; without those of SeparatePrefix
	Late        uint64 // counted though their key had seen a newer second
	TooLate     uint64 // refused: older than the retention
	ForHistory  uint64 // older than that, and taken for a history: not among Hits
	TooFarAhead uint64 // refused: later than the clock plus MaxAhead
	Quarantined uint64 // brought by others, or by what was stored, minutes beyond that: they count when their second comes

	NewestQuarantined time.Time // when, by the wall clock, the last of Ahead was brought; zero: none

	Keys        int
	HotKeys     int    // keys with stripes, because several cores hit them at once
	EvictedKeys uint64 // left because the memory budget was full
	EvictedHits uint64 // that the evicted keys had; AllKeys still counts them
	ExpiredKeys uint64 // left because their newest hit was older than the retention

	LimitStates  int   // keys with limits in use, counted for each limit, and some that are no longer
	LimitBytes   int64 // of these
	LimitBudget  int64
	InlineBytes  int64  // of LimitBytes: of limits that requests bring along
	InlineBudget int64  // of these
	LimitRefused uint64 // requests that had no room for their state

	OnceKeys        int    // receipts of Once that are kept, of all nodes
	OnceBytes       int64  // of those that this engine gave
	OnceBudget      int64  // of these
	OnceOthersBytes int64  // of the others; twice OnceBudget at most
	OnceRefused     uint64 // new keys that found no room
	OnceDropped     uint64 // receipts of others that left before their time
	OnceDropping    bool   // some of these would still be there

	ClockCorrection  time.Duration // what a node of a cluster adds to its wall clock, as others say that it is wrong
	LimitClockBehind time.Duration // by how much the time of day was set, corrected or stood still since the engine was made; limits are not wrong by it

	Bytes        int64 // of tables, keys and windows
	MemoryBudget int64 // bytes
	Partitions   int
	Waiting      int64     // deltas and filled live cells that wait for the journal
	WaitingBytes int64     // what they take there, at most, and keys of the last cut if they are hit again
	Newest       time.Time // second of the newest hit; the zero Time before the first
}

// Stats returns the figures; each is exact, but they are not taken at one instant.
func (e *Engine) Stats() Stats {
	k, l := e.keys.Stats(), e.limits.Stats()
	s := Stats{
		Keys: k.Keys, HotKeys: k.HotKeys, EvictedKeys: k.EvictedKeys, EvictedHits: k.EvictedHits, ExpiredKeys: k.ExpiredKeys,
		Bytes: k.Bytes, Waiting: k.Waiting, WaitingBytes: k.WaitingBytes,
		LimitStates: l.States, LimitBytes: l.Bytes, LimitBudget: l.Budget, InlineBytes: l.Inline, InlineBudget: l.InlineBudget, LimitRefused: l.Refused,

		Hits:         e.total.total(),
		Late:         e.refused.late.Load(),
		TooLate:      e.refused.tooLate.Load(),
		ForHistory:   e.refused.forHistory.Load(),
		TooFarAhead:  e.refused.tooFarAhead.Load(),
		MemoryBudget: e.cfg.Memory,
		Partitions:   e.cfg.Partitions,
	}
	s.ClockCorrection, s.LimitClockBehind = e.side.ClockCorrection(), e.side.LimitClockBehind()
	if hits, at := e.clock.Noted(); hits > 0 {
		s.Quarantined, s.NewestQuarantined = hits, time.Unix(at, 0)
	}
	once := e.receipts.Stats()
	s.OnceKeys, s.OnceBytes, s.OnceBudget, s.OnceOthersBytes = once.Keys, once.Own, once.Budget, once.Others
	s.OnceRefused, s.OnceDropped, s.OnceDropping = once.Refused, once.Dropped, once.Dropping
	if s.Hits > 0 {
		s.Newest = time.Unix(e.total.newest(), 0)
	}
	return s
}
