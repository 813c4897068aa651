package journal

import (
	"context"
	"maps"
	"slices"

	"github.com/weir-counter/weir"
)

// poured is a batch of windows, of forgotten hits or of nothing but a clear.
type poured struct {
	partition int
	kind      uint64
	entries   []byte
	n         uint64
}

// pour hands out what a partition has, in batches for an engine, which may have other
// partitions and another retention. Of equal contents it makes equal batches.
//
// With fewer partitions several become one. With more, the hits of all keys stay with the
// first that one becomes, since their sum is what matters; those of evicted keys, which
// are upper bounds, go to each, but for those of all keys, which go where the hits of all
// keys are.
func pour(c weir.Content, to *weir.Engine, f func(poured) error) error {
	cfg := to.Config()
	if c.Retention != cfg.Retention {
		var err error
		if c, err = c.Kept(cfg.Retention); err != nil {
			return err
		}
	}
	first := c.Partition & (cfg.Partitions - 1)
	bodies := map[int]*poured{}
	add := func(partition int, key weir.KeyWindow) error {
		p := bodies[partition]
		if p == nil {
			p = &poured{partition: partition, kind: kindWindows}
			bodies[partition] = p
		}
		p.entries = appendWindowEntry(p.entries, key.Key, &key.Window)
		if p.n++; len(p.entries) < maxBatchBytes {
			return nil
		}
		delete(bodies, partition)
		return f(*p)
	}
	if _, some := c.Total.Newest(); some {
		if err := add(first, weir.KeyWindow{Window: c.Total}); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		if err := add(to.Replication().PartitionOf(key.Key), key); err != nil {
			return err
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(bodies)) {
		if err := f(*bodies[partition]); err != nil {
			return err
		}
	}
	if len(c.Forgotten) == 0 {
		return nil
	}
	forgotten := pouredForgotten(c.Forgotten)
	for partition := first; partition < cfg.Partitions; partition += c.Partitions {
		if forgotten.partition = partition; forgotten.n > 0 {
			if err := f(forgotten); err != nil {
				return err
			}
		}
		forgotten = pouredForgotten(slices.DeleteFunc(slices.Clone(c.Forgotten), func(one weir.Forgotten) bool { return one.Place == weir.ForgottenOfAll }))
	}
	return nil
}

func pouredForgotten(list []weir.Forgotten) poured {
	p := poured{kind: kindForgotten, n: uint64(len(list))}
	for _, one := range list {
		p.entries = appendForgottenEntry(p.entries, one)
	}
	return p
}

// groupBytes is about how many bytes of states are in memory at a time.
const groupBytes = 32 << 20

// groups are the partitions of a backup by what they need in memory: one pass over the
// file for each.
func groups(sizes []int64) (list []weir.PartitionSet) {
	bytes := int64(groupBytes) + 1
	for partition, size := range sizes {
		if bytes += size; bytes > groupBytes {
			list = append(list, weir.NewPartitionSet(len(sizes)))
			bytes = size
		}
		list[len(list)-1].Add(partition)
	}
	return list
}

// each calls f with the content of each partition of a backup, a group of partitions in
// memory at a time, and receipts once. from is the engine that the content was in.
func (s *spool) each(ctx context.Context, f func(from *weir.Engine, c weir.Content) error, receipts func([][]byte) error) error {
	for _, some := range groups(s.sizes) {
		if err := s.eachOf(ctx, some, f, receipts); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) eachOf(ctx context.Context, some weir.PartitionSet, f func(*weir.Engine, weir.Content) error, receipts func([][]byte) error) error {
	b, err := s.open()
	if err != nil {
		return err
	}
	defer b.close()
	engine, err := b.info.engine()
	if err != nil {
		return err
	}
	if err := b.load(engine, some); err != nil {
		return err
	}
	if some.Has(0) {
		if err := receipts(engine.Replication().Receipts()); err != nil {
			return err
		}
	}
	var cut weir.Cut
	for partition := range s.sizes {
		if !some.Has(partition) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		engine.Replication().Cut(partition, &cut, true)
		c, err := weir.ReadContent(cut.State)
		if err == nil {
			err = f(engine, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
