package replica

import "time"

// Room is how Config.MaxBytes is shared out, in pure figures: the journal that it is
// asked of, and the simulation, decide alike. Of sixteen parts
//
//	0       4           6     7   8                                       16
//	|-------|-----------|-----|---|---------------------------------------|
//	journal   in haste    full      two snapshots of each partition
//	                            spent
//
// No flush ever waits for room. What would wait for what, were it otherwise:
//
//	hit -> flush -> room -> trim -> snapshots -> states -> the next flush
//
// is a circle, for a state counts only with the own hits in it, which are in the
// journal first. So it is cut where it does no harm, at its beginning: from full on,
// hits are refused before they are counted (replication.Engine.BoundWaiting), and what was counted
// until then is bounded so that it has room, on all nodes together. The flush that takes
// a state is then small or empty, and nothing that frees room waits for any:
//
//	hit (refused)     flush -> the store     trim -> snapshots -> states -> the last flush
//
// Beside hits, what writes is: admissions, which no flush leaves in memory, or a crash
// would give more of them back than those of one flush interval; so decisions that would
// admit are refused (replication.Engine.RefuseTakes) from half way between full and spent on. When it
// is spent, heartbeats and totals wait, and whoever waits for a flush is refused (errFull).
// The store itself takes MaxBytes, which the rest never comes to (see MinDisk of package journal).
type Room struct {
	Max       int64 // Config.MaxBytes
	Nodes     int   // that write the journal: what is counted on each must have room
	Clustered bool
}

// roomParts is in how many parts max is shared out.
const roomParts = 16

// MessageBytes is what the store adds to each message.
const MessageBytes = 64

// Haste tells whether the journal has taken so much that rounds must be quick.
func (r Room) Haste(retained int64) bool { return retained > r.Max/roomParts*4 }

// FullFrom is how much journal there may be before hits are refused. A node alone knows
// to the byte how much there is; of many, each knows it from a moment ago.
func (r Room) FullFrom() int64 {
	if r.Clustered {
		return r.Max / roomParts * 6
	}
	return r.Max / roomParts * 7
}

// Full tells whether hits are refused.
func (r Room) Full(retained int64) bool { return r.Waiting(retained, 0) < 0 }

// Flushing is what the next flush is like, by how much journal there is.
type Flushing struct {
	Haste bool // it takes more states
	Quiet bool // it has no heartbeats and totals, and whoever waits for it is refused
}

// Flushing decides it. last says that it is one of the last flushes.
func (r Room) Flushing(retained int64, last bool) Flushing {
	return Flushing{Haste: r.Haste(retained), Quiet: r.Spent(retained) && !last}
}

// Admits tells whether there is room for admissions, while so many bytes are on their way.
func (r Room) Admits(retained, underWay int64) bool { return retained+underWay <= r.Max/roomParts/2*15 }

// Takes tells whether there is room for something large that is no hit's, and can wait.
func (r Room) Takes(retained, bytes int64) bool {
	return retained+bytes <= r.FullFrom()-r.Max/roomParts
}

// EndsPin tells whether nothing may keep snapshots from being taken any more.
func (r Room) EndsPin(retained int64) bool { return retained > r.FullFrom()-r.Max/roomParts }

// Spent tells whether all is used that full left for what was counted.
func (r Room) Spent(retained int64) bool { return retained > r.Max/roomParts*8 }

// Waiting is how many bytes of hits may wait for a flush, beside those under way; below 0
// none are taken. Of many nodes each may have its share, twice: under way, and waiting.
func (r Room) Waiting(retained, underWay int64) int64 {
	left := r.FullFrom() - retained - underWay
	switch {
	case left < r.Max/roomParts/16:
		return -1
	case r.Clustered:
		return r.Max / roomParts / 2 / int64(max(r.Nodes, 1))
	}
	return left
}

// Every is by how much the journal grows between rounds of snapshots, if the round
// before took so many bytes: snapshots write no more than the journal, as long as that
// has room.
func (r Room) Every(snapshotBytes, last, retained int64) int64 {
	every := min(max(snapshotBytes, last), r.Max/8)
	if r.Haste(retained) {
		every = min(every, r.Max/64)
	}
	return every
}

// LookAgain is how often a clustered node looks how much journal there is, where that
// is much; LookEvery, where not.
const LookAgain = 200 * time.Millisecond
