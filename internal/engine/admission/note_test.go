package admission

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

func TestNoteKeepsTheLatestTime(t *testing.T) {
	ls := New(1, 1<<20, true, keyspace.ClockLimits{Source: time.Now, Wall: &keyspace.Wall{}})
	s := &ls.shares[0]
	st := keyspace.NewEntry[keyState]("k")
	st.Value.plan = &Plan{Record: "r"}
	ls.note(s, st, 1, 2_000_000_000)
	ls.note(s, st, 1, 1_000_000_000) // read its clock first, got the lock second
	var c replication.Cut
	if ls.cut(s, &c); len(c.Admissions) != 1 || c.Admissions[0].At < 2000 {
		t.Errorf("journaled %+v, the last was admitted at 2000 ms", c.Admissions)
	}
}
