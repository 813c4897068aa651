package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// A hit that was taken while its partition was away, and that a clock which runs back leaves
// ahead, is in the cut alone: it comes back from the journal, and counts once.
func TestHitsInQuarantineOfAPartitionThatIsAway(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Partitions: 1, Gather: true, Now: func() time.Time { return now }})
	e.Release(0)
	var c replication.Cut
	e.Cut(0, &c, false)
	e.HitAt(now, "a", 3)
	now = now.Add(-2 * time.Hour)
	e.Cut(0, &c, false)
	if len(c.Deltas) != 1 || c.Deltas[0].N != 3 {
		t.Fatalf("the cut has %+v", c.Deltas)
	}
	if err := hold(e, 0, nil, []replication.Followed{{Deltas: c.Deltas}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	e.lookAhead()
	got, err := e.Count("a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	checkBounds(t, "a", got, 3, true)
}
