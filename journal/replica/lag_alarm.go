package replica

import (
	"fmt"
	"time"
)

// LateAlarm is that of a late node. spent says that the journal has room for no flush
// without hits, of any node: what it lacks then is room, not a quorum.
func LateAlarm(o OriginStatus, spent bool) Alarm {
	since := o.AsOf.UTC().Format(time.RFC3339) // as answers say it
	a := Alarm{Code: "node_late", Message: fmt.Sprintf("%s is %s since %s: hits that it took since then may be missing here", o.Node, o.Why, since)}
	const why = "the journal is full (--max-disk), and takes no heartbeats of nodes until snapshots are stored and it is trimmed"
	switch {
	case o.Self && o.Why == Behind:
		a.Code, a.Message = "behind", fmt.Sprintf("this node applies the journal more than %v late: it can't keep up with what all nodes write, or gets no messages: look at its CPU, its disk and the links", LateAfter)
	case o.Self && spent:
		a.Code, a.Message = "unwritten", fmt.Sprintf("nothing that this node took since %s is known to be in the journal: %s", since, why)
	case o.Self:
		a.Code, a.Message = "unwritten", fmt.Sprintf("what this node took since %s is not in the journal: too few nodes reach each other, or their disks are full or slow", since)
	case o.Why == Unwritten && spent:
		a.Message += "; " + why
	case o.Why == Silent:
		a.Message += "; start it, or remove it for good (weir cluster remove)"
	}
	return a
}
