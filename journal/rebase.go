package journal

import (
	"context"

	"github.com/weir-counter/weir"
)

// rebase makes the loaded counts the new beginning, after damage was accepted:
// it snapshots every partition beyond whatever the journal had reached, and
// empties the journal up to there. Without it, what was lost would be found
// again at each start, and a journal that was cut would use sequences a second
// time which snapshots say they include. If it is interrupted, the next start
// finds snapshots beyond the journal's end, and damage is to be accepted again.
func (j *Journal) rebase(ctx context.Context, l *loaded) error {
	target := l.reached + 1
	var cut weir.Cut
	for partition := range l.have {
		j.engine.Replication().Cut(partition, &cut, true)
		at := &j.replica.audit.lane(j.life.origin).positions[partition]
		at.epoch, at.lost = j.life.epoch, 0
		snap := snapshot{life: j.life, partition: partition, positions: j.replica.audit.positionsOf(partition, nil), from: target, state: cut.State}
		if partition == 0 {
			snap.receipts = j.engine.Replication().Receipts()
		}
		slot, _ := slotFor(l.have[partition], target)
		revision, err := j.store.putSnapshot(ctx, snap, slot, l.have[partition][slot].revision)
		if err != nil {
			return err
		}
		l.have[partition] = [slots]kept{} // the older one lacks what the journal loses now
		l.have[partition][slot] = kept{target + 1, revision}
	}
	l.last, l.bytes = target, 0
	return j.store.trim(ctx, target)
}
