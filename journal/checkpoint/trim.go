package checkpoint

import (
	"context"
	"slices"

	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// keepTrimmed finds out how much journal there is. The node that trims does so apart from
// its rounds when there is much: others may have ended theirs later.
func (c *Checkpointer) keepTrimmed(ctx context.Context) {
	c.LookAtSize(ctx)
	if !c.cfg.Space.Haste() || !c.Trims() || c.InRound() {
		return
	}
	if needed := c.neededByAll(ctx); needed > 1 {
		if err := c.trim(ctx, needed-1); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("journal: could not trim the journal; will retry", "error", err)
		}
	}
	if retained := c.cfg.Space.Retained(); c.cfg.Space.Room().EndsPin(retained) {
		c.cfg.Logger.Warn("journal: can't be trimmed because the snapshots of some partitions are old; hits will be refused once it is full", "retained", retained, "partitions", c.oldest())
	}
}

// LookAtSize asks how much journal there is.
func (c *Checkpointer) LookAtSize(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	if _, _, bytes, err := c.cfg.Store.Bounds(ctx); err == nil {
		c.cfg.Space.Found(bytes)
	}
}

// oldest are some of the partitions for whose snapshots the journal is kept.
func (c *Checkpointer) oldest() (list []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	needed := replica.OldestNeeded(c.rounds.Have)
	for partition, of := range c.rounds.Have {
		if slices.ContainsFunc(of[:], func(k replica.Slot) bool { return k.UpTo == needed }) && len(list) < 8 {
			list = append(list, partition)
		}
	}
	return list
}

// trim removes the journal up to and including a sequence, but for what is still needed, as long
// as there is room for that.
func (c *Checkpointer) trim(ctx context.Context, upTo uint64) error {
	if c.cfg.Needed != nil && !c.cfg.Space.Haste() {
		if needed := c.cfg.Needed(); needed > 0 {
			upTo = min(upTo, needed-1)
		}
	}
	if upTo == 0 {
		return nil
	}
	if err := c.cfg.Store.Trim(ctx, upTo); err != nil {
		return err
	}
	c.LookAtSize(ctx)
	return nil
}
