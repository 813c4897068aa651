package grant

import "time"

// ID names one grant: of one holder's time, to one Credit of a node.
type ID struct {
	Token  uint64 // the fencing token of the holder's lease; 0: the node has not heard of one
	Number uint64 // of the Credit, as NewCredit was told
}

// Ask is what a node says to the holder of a key, and asks for.
type Ask struct {
	ID       ID
	Used     uint64 // of the grant, all together
	Returned uint64
	Uses     []Use  // the newest of Used, the oldest first; those before were told
	Need     uint64 // admissions that a request waits for: all or none
	Want     uint64 // what the node could use within the next pace, beside Need
	Demand   uint64 // admissions per pace that it was asked for
}

// Use is N admissions, the last of them so long ago.
type Use struct {
	N   uint64
	Age time.Duration
}

// Answer is the holder's.
type Answer struct {
	ID      ID // of another Token than the Ask's: a new grant
	Granted uint64
	Used    uint64 // of the Ask: what needs to be told no more
	Allowed bool   // Need was admitted: it counts, and is not of the grant
	Short   bool   // the node got less than it wanted
	Pause   time.Duration
	Free    uint64        // what was left at the holder
	Out     uint64        // what was out at other nodes
	Wait    time.Duration // until the limit has more than now, if nothing is returned
	Reset   time.Duration // until the whole burst is there again, if nothing more is used
}
