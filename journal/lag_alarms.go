package journal

import (
	"fmt"
	"time"
)

// lagAlarms tell of each node whose hits may be missing here, and of this one where what
// it takes does not reach the journal. A node stays in service meanwhile: its answers say
// what they lack.
func (j *Journal) lagAlarms() (alarms []Alarm) {
	_, late := j.Freshness()
	for _, o := range late {
		a := Alarm{Code: "node_late", Message: fmt.Sprintf("%s is %s since %s: hits that it took since then may be missing here", o.Node, o.Why, o.Since.UTC().Format(time.RFC3339))}
		switch {
		case o.Self && j.stats.failing.Load():
			continue // flushAlarms says so
		case o.Self && o.Why == Behind:
			a.Code, a.Message = "behind", fmt.Sprintf("this node applies the journal more than %v late: it can't keep up with what all nodes write, or gets no messages: look at its CPU, its disk and the links", lateAfter)
		case o.Self:
			a.Code, a.Message = "unwritten", fmt.Sprintf("what this node took since %s is not in the journal: too few nodes reach each other, or their disks are full or slow", o.Since.UTC().Format(time.RFC3339))
		case o.Why == Silent:
			a.Message += "; start it, or remove it for good (weir cluster remove)"
		}
		alarms = append(alarms, a)
	}
	return alarms
}
