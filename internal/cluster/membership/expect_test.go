package membership

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// A member that registered, and of which this node has and hears nothing, is late after some seconds, until it is removed. One that
// registered a day ago is known by its flushes, and a name may have a new directory.
func TestRegisteredMemberIsExpected(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: testPartitions, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := replica.New(e, 1, "n1", true)
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	now := time.Now()
	registry := &Registry{entries: map[string]PlacementEntry{
		"n1": {Node: "n1", Origin: "00000000000000ff", Epoch: 1, At: now},
		"n2": {Node: "n2", Origin: "0000000000000002", Epoch: 1, At: now},
		"n3": {Node: "n3", Origin: "0000000000000003", Epoch: 1, At: now.Add(-replica.ForgetAfter - time.Hour)},
	}}
	k := &Keeper{View: &View{cfg: HoldersConfig{Node: "n1"}, Registry: registry}, Replica: r}
	check := func(want ...string) {
		t.Helper()
		k.expect(now)
		now = now.Add(2 * replica.LateAfter)
		k.expect(now)
		_, late := r.Freshness(now)
		if len(late) != len(want) || len(want) > 0 && (late[0].Origin != want[0] || late[0].Why != replica.Silent) {
			t.Errorf("late are %+v, want %v", late, want)
		}
	}
	check("0000000000000002")
	registry.entries["n2"] = PlacementEntry{Node: "n2", Origin: "0000000000000004", Epoch: 1, At: now}
	check("0000000000000004")
	delete(registry.entries, "n2")
	if !r.Removed("0000000000000004", 0) {
		t.Error("a member that is known can't be removed")
	}
	check()
}
