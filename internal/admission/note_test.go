package admission

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/internal/keytable"
)

func TestNoteKeepsTheLatestTime(t *testing.T) {
	var s share
	st := keytable.New[keyState]("k")
	st.Value.plan = &Plan{Record: "r"}
	s.note(st, 1, 2_000_000_000)
	s.note(st, 1, 1_000_000_000) // read its clock first, got the lock second
	if a := s.cut(nil, &clock.Limits{Source: time.Now, Wall: &clock.Wall{}})[0]; a.At < 2000 {
		t.Errorf("journaled at %d ms, the last was admitted at 2000", a.At)
	}
}
