package journal

import (
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// clockSetter is what a journal knows of its clock.
type clockSetter struct {
	mu      sync.Mutex
	list    record.ClockSets
	behind  time.Duration // Replication.LimitClockBehind, up to which sets are in list
	unsaved bool
}

// begin is of a start, before it reads the journal.
func (c *clockSetter) begin(list record.ClockSets, behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.behind = list, behind
}

// sets returns the list, which does not change.
func (c *clockSetter) sets() record.ClockSets {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// noteClockSet remembers that the time of day was set, before the flush is cut that tells times
// by it. The flusher calls it. true: it was, and the flush is to be written even if empty, so
// that snapshots from here on are told from those before.
func (j *Journal) noteClockSet() bool {
	c := &j.set
	c.mu.Lock()
	defer c.mu.Unlock()
	behind := replication.Of(j.engine).LimitClockBehind()
	by := behind - c.behind
	wasSet := by.Abs() >= replica.ClocksAgree // less is drift
	if wasSet {
		after := j.flusher.Last()
		if j.cfg.clustered() {
			after = max(after, j.replica.Next()-1)
		}
		c.list, c.behind = c.list.With(record.ClockSet{After: after, MS: by.Milliseconds()}), behind
		j.replica.NoteClockSets(c.list, behind)
	}
	if wasSet || c.unsaved {
		m := j.manifest
		m.ClockSet = c.list
		err := m.Save(j.cfg.Dir)
		if err != nil && !c.unsaved {
			j.log.Error("journal: could not write into the manifest that the clock was set; will retry. If the process crashes before, limits may be forgotten early", "by", by, "error", err)
		}
		c.unsaved = err != nil
	}
	return wasSet
}
