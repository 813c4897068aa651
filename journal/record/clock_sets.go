package record

import "time"

// ClockSet is one time that the time of day was set.
type ClockSet struct {
	After uint64 `json:"after"` // last message of the journal before it
	MS    int64  `json:"ms"`    // by how much it was set forward; below 0: back
}

// ClockSets are the times that the time of day was set while the directory was in use, in their order.
//
// Limits are kept by a clock that nobody sets, and told to the journal by the time of day. When
// that is set forward and the process then crashes, what the journal has would seem older than
// it is, and be forgotten early. So each set is remembered, in the manifest, with the place in the
// journal up to which times were told by the clock as it was before; a start reads what is before
// that place as so much later. A set back needs nothing: what seems to come from the future came
// now at the latest. Its amount is remembered too, since it may undo one that was forward.
//
// What remains: a set less than a flush interval before the crash, one while no process ran, and
// in a cluster one of all nodes' clocks while this node did not run. A suspended machine is as a
// clock that was set: its limits count the time as not gone by.
type ClockSets []ClockSet

// maxClockSets bounds the list; older ones are put together.
const maxClockSets = 64

// Since is by how much the time of day was set forward since a message, or since a snapshot
// that goes up to it; 0 where it was set back.
func (list ClockSets) Since(sequence uint64) time.Duration {
	sum := int64(0)
	for _, s := range list {
		if s.After >= sequence {
			sum += s.MS
		}
	}
	return time.Duration(max(sum, 0)) * time.Millisecond
}

// With is the list and one more. Where there are too many, the oldest two become one, which
// counts no less for any message.
func (list ClockSets) With(s ClockSet) ClockSets {
	all := append(list[:len(list):len(list)], s)
	if len(all) > maxClockSets {
		all[1].MS += max(all[0].MS, 0)
		all = all[1:]
	}
	return all
}
