package admit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// A request to reserve takes nothing where there is no room to note what it reserves.
func TestReserveWithoutRoomTakesNothing(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := policy.Parse("policies.yaml", []byte("limits:\n  - {name: a, keys: \"a:*\", limit: 10, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	of, _ := live.Limit("a")
	until := time.Now().Add(time.Hour)
	for i := range engine.MaxReservations {
		if err := of.NoteReserved("a:full", 1, engine.Reservation{ID: fmt.Sprint(i), Until: until}, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	var d Decision
	err = live.Reserve([]Request{{Key: "a:x", N: 4}}, engine.Reservation{ID: "one more", Until: until}, &d)
	if refused, ok := errors.AsType[*engine.Error](err); !ok || refused.Code != api.CodeOverloaded {
		t.Errorf("%v, want %s", err, api.CodeOverloaded)
	}
	if v, err := of.Peek("a:x", 0); err != nil || v.Remaining != 10 {
		t.Errorf("%+v, %v: the refused request has taken", v, err)
	}
}
