package backup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// What sampling added stays in doubt where a backup is restored into other partitions.
func TestPouredHitsStayInDoubt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	const keys = 50
	made := func(partitions int) *engine.Engine {
		e, err := engine.New(engine.Config{Partitions: partitions, Gather: true, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	from := made(4)
	for i := range keys {
		if _, err := from.HitSampled(now, fmt.Sprint("k", i), 10, 9); err != nil {
			t.Fatal(err)
		}
	}
	for _, partitions := range []int{1, 4, 16} {
		to := made(partitions)
		h := replica.NewHolding(to)
		for partition := range 4 {
			var cut replication.Cut
			from.Cut(partition, &cut, true)
			c, err := replication.ReadContent(cut.State)
			if err != nil {
				t.Fatal(err)
			}
			if err := backup.Pour(c, to, func(b record.Batch) error { return h.Count(b, false, false) }); err != nil {
				t.Fatal(err)
			}
		}
		lower := uint64(0)
		for partition := range partitions {
			only := replication.NewPartitionSet(partitions)
			only.Add(partition)
			got, err := to.CountIn(only, now, engine.AllKeys, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			lower += got.Lower
		}
		all, err := to.CountAt(now, engine.AllKeys, time.Minute)
		if err != nil || all.Lower != keys || all.Estimate != 10*keys || all.HasUpper() || lower != keys {
			t.Errorf("%d partitions: %v (%v), by partitions %d or more", partitions, all, err, lower)
		}
		if got, err := to.CountAt(now, "k7", time.Minute); err != nil || got.String() != "10 (1 or more)" {
			t.Errorf("%d partitions: a key has %v (%v)", partitions, got, err)
		}
	}
}
