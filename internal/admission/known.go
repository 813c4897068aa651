package admission

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

// Known appends what is known of a key's admissions under a plan that still matter, the
// oldest first, each at the latest time of day at which it may have been, and by how much
// earlier it may have been. It takes nothing.
func (ls *Table) Known(plan *Plan, partition int, key string, list []limit.Admitted) (_ []limit.Admitted, doubt time.Duration) {
	now, ahead := ls.Clock.Now(), ls.Clock.Ahead()
	share := &ls.shares[partition]
	share.mu.Lock()
	defer share.mu.Unlock()
	st := ls.look(share, plan, key, now)
	began, before := len(list), st.state.Size()
	list, doubt = plan.AppendKnown(list, &st.state, now), plan.Doubt(&st.state)
	if st.key != "" { // it is in the table, and may have let go of what is over
		ls.grow(st.plan, int64(st.state.Size()-before))
	}
	for i := range list[began:] {
		list[began+i].At += ahead
	}
	return list, doubt
}
