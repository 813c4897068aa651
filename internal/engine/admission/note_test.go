package admission

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
)

func TestNoteKeepsTheLatestTime(t *testing.T) {
	ls := New(1, 1<<20, true, keyspace.ClockLimits{Source: time.Now, Wall: &keyspace.Wall{}})
	s := &ls.shares[0]
	st := keyspace.NewEntry[keyState]("k")
	st.Value.plan = &Plan{Record: "r"}
	ls.note(s, st, 1, 2_000_000_000)
	ls.note(s, st, 1, 1_000_000_000) // read its clock first, got the lock second
	if a := s.cut(nil, &ls.Clock)[0]; a.At < 2000 {
		t.Errorf("journaled at %d ms, the last was admitted at 2000", a.At)
	}
}
