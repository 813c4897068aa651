package admission

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

// Known appends what is known of a key's admissions under a plan that still matter, the
// oldest first, each at the latest time of day at which it may have been, and by how much
// earlier it may have been. It takes nothing. raw is what Wall.Raw has just said.
func (ls *Table) Known(plan *Plan, partition int, key string, raw time.Time, list []limit.Admitted) (_ []limit.Admitted, doubt time.Duration) {
	now, ahead := ls.Clock.At(raw)
	share := &ls.shares[partition]
	share.mu.Lock()
	defer share.mu.Unlock()
	st := ls.look(share, plan, key, now)
	began, before := len(list), cellBytes(st)
	list, doubt = plan.AppendKnown(list, &st.Value.state, now), plan.Doubt(&st.Value.state)
	if st.Key() != "" { // it is in the table, and may have let go of what is over
		if grown := cellBytes(st) - before; grown != 0 {
			ls.grow(st.Value.plan, int64(grown))
		}
	}
	for i := range list[began:] {
		list[began+i].At += ahead
	}
	return list, doubt
}
