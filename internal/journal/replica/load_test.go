package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A start that counts many flushes together, partition by partition, comes to what it comes to flush by
// flush: with removals, flushes of several parts and batches that come twice.
func TestReplayTogether(t *testing.T) {
	t.Parallel()
	const partitions = 4
	now := time.Now().Truncate(time.Second)
	enc := record.NewEncoder(record.Incarnation{Origin: 1, Epoch: 1}, partitions)
	enc.PartBytes = 200
	begin := func() *engine.Engine {
		e, err := engine.New(engine.Config{Gather: true, Partitions: partitions})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	parted := begin()
	var messages [][]byte
	for flush := range 60 {
		enc.Begin(now)
		by := make([][]replication.Delta, partitions)
		for i := range 20 {
			d := replication.Delta{Key: fmt.Sprintf("key:%d", (flush+i)%30), At: now.Unix() - int64(100-flush), N: uint64(1 + i)}
			if (flush*20+i)%37 == 0 {
				d = replication.Delta{Key: d.Key} // it is removed
			}
			p := parted.Keyspace().PartitionOf(d.Key)
			by[p] = append(by[p], d)
		}
		for p, deltas := range by {
			if len(deltas) > 0 {
				enc.Add(p, deltas)
			}
		}
		messages = append(messages, enc.End(nil)...)
	}
	counts := func(together int) (list []string) {
		e := begin()
		r := New(e, 1, "", false)
		r.audit.together = together
		for i, data := range messages {
			if err := r.Replay(uint64(i+1), data); err != nil {
				t.Fatal(err)
			}
		}
		last := uint64(len(messages))
		found, err := r.EndReplay(last, last)
		if err != nil || len(found) > 0 {
			t.Fatal(found, err)
		}
		for k := range 30 {
			key := fmt.Sprintf("key:%d", k)
			for _, window := range []time.Duration{10 * time.Second, 5 * time.Minute} {
				c, err := e.CountAt(now, key, window)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, fmt.Sprintf("%s in %v: %+v", key, window, c))
			}
		}
		return append(list, fmt.Sprintf("%d keys", e.Stats().Keys))
	}
	one, many := counts(0), counts(replayBytes)
	for i := range one {
		if one[i] != many[i] {
			t.Errorf("one by one %s, together %s", one[i], many[i])
		}
	}
}
