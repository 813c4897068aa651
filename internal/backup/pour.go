package backup

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Pour hands out what a partition has, in batches for an engine, which may have other
// partitions and another retention. Of equal contents it makes equal batches.
//
// With fewer partitions several become one. With more, one becomes several: the hits of all keys stay with the first of them, because only their
// sum matters. The hits of evicted keys are upper bounds and go to each. Their sum over all keys goes to the first.
func Pour(c replication.Content, to *engine.Engine, f func(record.Batch) error) error {
	cfg := to.Config()
	if c.Retention != cfg.Retention {
		var err error
		if c, err = c.WithRetention(cfg.Retention); err != nil {
			return err
		}
	}
	first := c.Partition & (cfg.Partitions - 1)
	bodies := map[int]*record.Batch{}
	add := func(partition int, key replication.KeyWindow) error {
		p := bodies[partition]
		if p == nil {
			p = &record.Batch{Partition: partition, Kind: record.KindWindows}
			bodies[partition] = p
		}
		p.Entries = record.AppendWindowEntry(p.Entries, key.Key, &key.Window)
		if p.N++; len(p.Entries) < record.MaxBatchBytes {
			return nil
		}
		delete(bodies, partition)
		return f(*p)
	}
	if _, some := c.Total.Newest(); some {
		if err := add(first, replication.KeyWindow{Window: c.Total}); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		partition := first // of what sampling added to all keys
		if sampled := strings.TrimPrefix(key.Key, engine.SampledPrefix); sampled != "" {
			partition = to.Keyspace().PartitionOf(sampled)
		}
		if err := add(partition, key); err != nil {
			return err
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(bodies)) {
		if err := f(*bodies[partition]); err != nil {
			return err
		}
	}
	var scratch []byte
	for _, ids := range c.Distinct {
		b := record.Batch{Partition: to.Keyspace().PartitionOf(ids.Key), Kind: record.KindDistinct, Entries: ids.AppendDistinct(nil, &scratch), N: 1}
		if err := f(b); err != nil {
			return err
		}
	}
	if len(c.Evicted) == 0 {
		return nil
	}
	evicted := pouredEvicted(c.Evicted)
	for partition := first; partition < cfg.Partitions; partition += c.Partitions {
		if evicted.Partition = partition; evicted.N > 0 {
			if err := f(evicted); err != nil {
				return err
			}
		}
		evicted = pouredEvicted(slices.DeleteFunc(slices.Clone(c.Evicted), func(one replication.Evicted) bool { return one.Place == replication.EvictedOfAll }))
	}
	return nil
}

func pouredEvicted(list []replication.Evicted) record.Batch {
	p := record.Batch{Kind: record.KindEvicted, N: uint64(len(list))}
	for _, one := range list {
		p.Entries = record.AppendEvictedEntry(p.Entries, one)
	}
	return p
}

// groupBytes is about how many bytes of states are in memory at a time.
const groupBytes = 32 << 20

// groups are the partitions of a backup by what they need in memory: one pass over the
// file for each.
func groups(sizes []int64) (list []replication.PartitionSet) {
	bytes := int64(groupBytes) + 1
	for partition, size := range sizes {
		if bytes += size; bytes > groupBytes {
			list = append(list, replication.NewPartitionSet(len(sizes)))
			bytes = size
		}
		list[len(list)-1].Add(partition)
	}
	return list
}

// Each calls f with the content of each partition of a backup, a group of partitions in memory at a time, and the engine that has
// it. It calls receipts once, with receipts and the positions of topics.
func (s *Spool) Each(ctx context.Context, f func(from *engine.Engine, c replication.Content) error, receipts func([][]byte, []replication.Request) error) error {
	for _, some := range groups(s.sizes) {
		if err := s.eachOf(ctx, some, f, receipts); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spool) eachOf(ctx context.Context, some replication.PartitionSet, f func(*engine.Engine, replication.Content) error, receipts func([][]byte, []replication.Request) error) error {
	b, err := s.Open()
	if err != nil {
		return err
	}
	defer b.Close()
	e, err := b.Info.Engine()
	if err != nil {
		return err
	}
	if err := b.Load(e, some); err != nil {
		return err
	}
	if some.Has(0) {
		_, moves := e.Receipts().Cut(func() {})
		if err := receipts(e.Receipts().All(), moves); err != nil {
			return err
		}
	}
	var cut replication.Cut
	for partition := range s.sizes {
		if !some.Has(partition) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.Cut(partition, &cut, true)
		c, err := replication.ReadContent(cut.State)
		if err == nil {
			err = f(e, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PourInto loads all that a backup has into an engine with settings of its own.
func (s *Spool) PourInto(ctx context.Context, e *engine.Engine) error {
	to := replica.NewHolding(e)
	return s.Each(ctx, func(from *engine.Engine, c replication.Content) error {
		admissions, err := from.Limits().Admissions(c)
		if err != nil {
			return err
		}
		for _, a := range admissions {
			if err := e.Limits().ApplyAdmissions(e.Keyspace().PartitionOf(a.Key), []replication.Admission{a}); err != nil {
				return err
			}
		}
		for _, one := range openChanges(c) {
			if err := e.ApplyChanges(e.Keyspace().PartitionOf(replication.KeyOf(one)), []replication.Change{one}); err != nil {
				return err
			}
		}
		return Pour(c, e, func(b record.Batch) error { return to.Count(b, false, false) })
	}, func(receipts [][]byte, moves []replication.Request) error {
		advance(e, moves)
		return e.Receipts().Load(receipts, false, 0)
	})
}
