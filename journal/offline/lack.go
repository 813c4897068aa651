package offline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/restore"
)

// lackOf says what others may have that this directory does not.
func (d *directory) lackOf(ctx context.Context, dir string, m datadir.Manifest, ofMany bool) error {
	first, last, _, err := d.store.Bounds(ctx)
	if err != nil {
		return err
	}
	reached, err := datadir.ReadWatermark(dir)
	if err == nil && reached.Stream > last {
		return fmt.Errorf("%w: messages %d to %d of the journal were acknowledged and are not in this directory: start this node once as it was, with the others", record.ErrDamaged, last+1, reached.Stream)
	}
	if !ofMany {
		return nil
	}
	ends, err := d.ends(ctx, m.Partitions, first, last)
	if err != nil {
		return err
	}
	if err := d.lackOfMerges(ctx, ends); err != nil {
		return err
	}
	now := time.Now()
	for origin, end := range ends {
		if origin == m.Origin || end.left || now.Sub(time.UnixMilli(end.at)) > replica.ForgetAfter || end.replaced(ends) || member.WasRemoved(ctx, d.server.JetStream(), origin, end.at) {
			continue
		}
		return fmt.Errorf("%w: node %s did not say that it stops, and may have newer hits than this directory: "+
			"start the cluster again, and stop its nodes in good order (SIGTERM), this one last, or remove that one: weir cluster remove %[2]s", record.ErrDamaged, end.node)
	}
	return nil
}

// lackOfMerges says whether backups were merged and their list is not in this directory:
// of more than three nodes, others may keep it than keep the journal. Without it, the same
// hits would be taken a second time, from another backup of the same journal.
func (d *directory) lackOfMerges(ctx context.Context, ends map[uint64]end) error {
	_, err := d.server.JetStream().KeyValue(ctx, restore.MergesBucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	for _, end := range ends {
		if record.IsBackupName(end.node) {
			return fmt.Errorf("%w: backups were merged into this journal, and the list of them, %s, is kept by other nodes: the same hits could be counted a second time. "+
				"Leave with the directory of a node that keeps both, or take a backup of the running cluster: weir backup, weir restore", record.ErrDamaged, restore.MergesBucket)
		}
	}
	return nil
}

// end is what the journal has last of an origin.
type end struct {
	node string
	at   int64
	left bool
}

// replaced tells whether a node of the same name goes on in another directory.
func (e end) replaced(all map[uint64]end) bool {
	for _, other := range all {
		if other.node == e.node && other.at > e.at {
			return true
		}
	}
	return false
}

// ends are those of all origins.
func (d *directory) ends(ctx context.Context, partitions int, first, last uint64) (map[uint64]end, error) {
	ends := map[uint64]end{}
	lists, _, err := d.store.ListSnapshots(ctx, partitions)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		snap, err := d.store.GetSnapshot(ctx, list[0])
		if err != nil {
			continue // the backup finds the one before
		}
		for _, at := range snap.Positions {
			if at.At >= ends[at.Origin].at {
				ends[at.Origin] = end{at.Node, at.At, at.Left}
			}
		}
	}
	err = d.store.Read(ctx, first, last, func(_ uint64, data []byte) error {
		if p, err := record.DecodePart(data); err == nil && p.At >= ends[p.Origin].at {
			ends[p.Origin] = end{p.Node, p.At, p.Leaving}
		}
		return nil
	})
	return ends, err
}
