package replica

import "github.com/weir-counter/weir/journal/record"

// Standing is where an auditor stands, as a snapshot of each partition without its state: an
// auditor that is resumed with these (ResumeOf) goes on from here, and drops what this one has
// handed out. From is the same in all; a flush of which only some parts have come is read again.
func (a *Auditor) Standing() []*record.Snapshot {
	begins := a.startOf()
	list := make([]*record.Snapshot, a.Partitions)
	for partition := range list {
		list[partition] = &record.Snapshot{Partition: partition, From: begins.from, Positions: a.positionsOf(partition, begins.heads)}
	}
	return list
}
