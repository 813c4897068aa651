package writer

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir/history/store"
)

// Keep is for how long rows are kept, by the longest prefix of their keys.
type Keep []store.Keep

// lookAfter sums up the days that are over, and deletes what is older than it is kept.
func (w *Writer) lookAfter(ctx context.Context) error {
	// Late hits still come after this, and are added to both tables: it costs less before.
	today := w.lease.AsOf.Add(-lateFor).Unix() / store.DaySeconds
	if err := w.cfg.Store.Roll(ctx, w.lease, today); err != nil {
		return err
	}
	if today <= w.expired || len(w.cfg.Keep) == 0 {
		return nil
	}
	if err := w.cfg.Store.Expire(ctx, w.lease, w.cfg.Keep, w.lease.AsOf); err != nil {
		return err
	}
	w.expired = today
	return nil
}

// lateFor is how long after its end a day is summed up.
const lateFor = time.Hour

// makeRoom deletes the oldest day of a file that has its size.
func (w *Writer) makeRoom(ctx context.Context, why error) error {
	if !errors.Is(why, store.ErrFull) || w.lease == nil {
		return why
	}
	day, ok, err := w.cfg.Store.DropOldest(ctx, w.lease)
	if err != nil {
		return errors.Join(why, err)
	}
	if !ok {
		return why
	}
	w.mu.Lock()
	w.status.Full = true
	w.mu.Unlock()
	w.cfg.Logger.Warn("history has its share of the disk (--history-disk): its oldest day is deleted early", "day", time.Unix(day*store.DaySeconds, 0).UTC().Format(time.DateOnly))
	return nil
}
