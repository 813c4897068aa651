package checkpoint

import (
	"context"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// Rebase makes the loaded counts the new beginning, after damage was accepted:
// it snapshots every partition beyond whatever the journal had reached, and
// empties the journal up to there. Without it, what was lost would be found
// again at each start, and a journal that was cut would use sequences a second
// time which snapshots say they include. If it is interrupted, the next start
// finds snapshots beyond the journal's end, and damage is to be accepted again.
func (s Start) Rebase(ctx context.Context, of record.Incarnation, l *Loaded) error {
	target := l.Reached + 1
	for partition := range l.Have {
		snap := s.Replica.Rebased(of, partition, target)
		slot, _ := replica.SlotFor(l.Have[partition], target)
		revision, err := s.Store.PutSnapshot(ctx, snap, slot, l.Have[partition][slot].Revision)
		if err != nil {
			return err
		}
		l.Have[partition] = [record.Slots]replica.Slot{} // the older one lacks what the journal loses now
		l.Have[partition][slot] = replica.Slot{UpTo: target + 1, Revision: revision}
	}
	l.Last, l.Bytes = target, 0
	return s.Store.Trim(ctx, target)
}
