package replica

import (
	"math"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// NoteClockSets replaces Sets: the time of day was set while this process runs, by what the
// list has last. behind is LimitClockBehind with which the list ends.
func (r *Replica) NoteClockSets(list record.ClockSets, behind time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Sets, r.behind = list, behind
}

// sinceSet is by how much the time of day was set forward since a message of the journal was
// told by it, or a snapshot that goes up to it: what is not in Sets yet was set since. The caller holds mu,
// or nobody else has the replica yet.
func (r *Replica) sinceSet(message uint64) time.Duration {
	list := r.Sets
	if by := replication.Of(r.engine).LimitClockBehind() - r.behind; by.Abs() >= ClocksAgree { // less is drift
		list = list.With(record.ClockSet{After: math.MaxUint64, MS: by.Milliseconds()})
	}
	return list.Since(message)
}
