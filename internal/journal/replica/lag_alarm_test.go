package replica

import (
	"strings"
	"testing"
)

// Where the journal is full, what is wrong with a node whose flushes stand still is not
// that too few nodes reach each other.
func TestALateNodesAlarmSaysThatTheJournalIsFull(t *testing.T) {
	for _, c := range []struct {
		o           OriginStatus
		spent       bool
		code, says  string
		doesNotTell string
	}{
		{OriginStatus{Self: true, Why: Unwritten}, true, "unwritten", "journal is full", "reach each other"},
		{OriginStatus{Self: true, Why: Unwritten}, false, "unwritten", "reach each other", "journal is full"},
		{OriginStatus{Self: true, Why: Behind}, true, "behind", "can't keep up", "journal is full"},
		{OriginStatus{Node: "n2", Why: Unwritten}, true, "node_late", "journal is full", "start it"},
		{OriginStatus{Node: "n2", Why: Unwritten}, false, "node_late", "hits of n2 since", "journal is full"},
		{OriginStatus{Node: "n2", Why: Silent}, true, "node_late", "n2 is not reachable since", "journal is full"},
		{OriginStatus{Node: "n2", Why: Behind}, false, "node_late", "this node has not applied", "n2 is"},
	} {
		a := LateAlarm(c.o, c.spent)
		if a.Code != c.code || !strings.Contains(a.Message, c.says) || strings.Contains(a.Message, c.doesNotTell) {
			t.Errorf("%+v, spent %v: %+v", c.o, c.spent, a)
		}
	}
}
