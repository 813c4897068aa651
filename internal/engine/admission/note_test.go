package admission

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
)

func TestNoteKeepsTheLatestTime(t *testing.T) {
	var s share
	st := keyspace.NewEntry[keyState]("k")
	st.Value.plan = &Plan{Record: "r"}
	s.note(st, 1, 2_000_000_000)
	s.note(st, 1, 1_000_000_000) // read its clock first, got the lock second
	if a := s.cut(nil, &keyspace.ClockLimits{Source: time.Now, Wall: &keyspace.Wall{}})[0]; a.At < 2000 {
		t.Errorf("journaled at %d ms, the last was admitted at 2000", a.At)
	}
}
