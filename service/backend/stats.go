package backend

// RouteStats are the figures of questions whose keys other nodes hold, since the
// start.
type RouteStats struct {
	Asked      uint64 // questions put to other nodes
	Joined     uint64 // questions that waited for the answer to an equal one
	Repeated   uint64 // questions answered by what an equal one was told just before
	Requests   uint64 // messages with questions to other nodes
	Failed     uint64 // those without an answer
	Unanswered uint64 // questions that no holder answered
	Refused    uint64 // questions not asked, because too many waited
	Served     uint64 // questions of other nodes that were answered
	Dropped    uint64 // messages of other nodes that waited for too long or were too many
	Asking     int    // questions and decisions under way now
	Decisions  uint64 // decisions of shared limits that were put to other nodes
	Undecided  uint64 // those that no holder made in time, or that were too many: this node did by itself
}

// StrictStats are the figures of the strict limits that nodes decide for each other,
// since the start.
type StrictStats struct {
	Held       int    // groups of keys that this node decides for now
	Decided    uint64 // questions that this node decided
	Forwarded  uint64 // questions that it sent to other nodes
	Unanswered uint64 // of its own questions: nobody decided in time
	Lost       uint64 // admissions that count but were not told
	Refused    uint64 // questions of others that were too many
}

// LeasedStats are the figures of leased limits, since the start.
type LeasedStats struct {
	Local  uint64 // decisions by this node, within what it was lent or by what was said to it a moment ago
	Asked  uint64 // messages to nodes that lend
	Served uint64 // messages that this node answered
	Short  uint64 // denials while others had enough that was not used
	Keys   int    // keys that this node was asked for lately
	Lent   uint64 // admissions that this node has now
	Out    uint64 // admissions that this node has lent, and that count as used
}
