package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// What the engine does not take of a flush is named; the rest of the flush, and what comes after it, counts.
func TestRefusedBatch(t *testing.T) {
	eng, err := engine.New(engine.Config{Partitions: 4, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	r := New(eng, 1, "n1", true)
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	e := record.NewEncoder(record.Incarnation{Origin: 2, Epoch: 1}, 4)
	now := time.Now().Truncate(time.Second)
	partition := eng.Keyspace().PartitionOf("k")
	for sequence := uint64(1); sequence <= 2; sequence++ {
		e.Begin(now)
		if sequence == 1 {
			e.AddAdmissions(partition, []replication.Admission{{Limit: "of a later version", Key: "k", At: now.UnixMilli(), N: 1}})
		}
		e.Add(partition, []replication.Delta{{Key: "k", At: now.Unix(), N: 3}})
		for _, data := range e.End(nil) {
			if _, err := r.Follow(now, sequence, data, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := eng.CountAt(now, "k", time.Minute); err != nil || got.Lower != 6 || r.Next() != 3 {
		t.Errorf("it counts %+v, %v, and goes on at message %d", got, err, r.Next())
	}
	found := r.NewFindings()
	if len(found) != 1 || found[0].Harmless || !strings.Contains(found[0].Where, "partition") {
		t.Errorf("findings %v", found)
	}
}
