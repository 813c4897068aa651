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

// Ids are restored into other partitions, and another retention, as they were.
func TestPouredIDs(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	made := func(partitions int, retention time.Duration) *engine.Engine {
		e, err := engine.New(engine.Config{Partitions: partitions, Retention: retention, Gather: true, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	from := made(4, 24*time.Hour)
	for i := range 3000 {
		key := from.Keyspace().Expect(nil, []string{fmt.Sprint("k", i%100%7)})
		if _, err := from.HitDistinct(now.Add(-time.Duration(i)*time.Second), key[0], 1, engine.HashID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []*engine.Engine{made(1, 24*time.Hour), made(16, 48*time.Hour)} {
		h := replica.NewHolding(to)
		for range 2 { // a union: again changes nothing
			for partition := range 4 {
				var cut replication.Cut
				from.Cut(partition, &cut, true)
				c, err := replication.ReadContent(cut.State)
				if err == nil {
					err = backup.Pour(c, to, func(b record.Batch) error { return h.Count(b, false, false) })
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range 7 {
			want, _, _ := from.Distinct(now, fmt.Sprint("k", i), time.Hour)
			got, _, err := to.Distinct(now, fmt.Sprint("k", i), time.Hour)
			if err != nil || got == nil || string(got.Append(nil)) != string(want.Append(nil)) {
				t.Errorf("k%d: other ids, %v", i, err)
			}
		}
	}
}
