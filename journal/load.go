package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// loaded is what a start found.
type loaded struct {
	findings []Finding
	have     [][slots]kept // see snapshotter
	last     uint64        // sequence of the stream's last message
	reached  uint64        // the last sequence that is known to have been there
	bytes    uint64        // of the journal
}

// load brings the engine to where the journal ends: for each partition the
// newest good snapshot, then the batches after it, in order, audited.
func (j *Journal) load(ctx context.Context, m manifest, isNew bool, missing []Finding, progress func(done, all uint64)) (loaded, error) {
	var l loaded
	j.replica = newReplica(j.engine, m.Origin, j.cfg.Join.Node, j.cfg.clustered() || j.ofMany)
	j.replica.timed, j.replica.stamp = j.stats.timed, j.now
	audit := j.replica.audit
	audit.findings = missing
	first, last, bytes, err := j.store.bounds(ctx)
	if err != nil {
		return l, err
	}
	l.last, l.bytes = last, bytes
	snaps, err := j.loadSnapshots(ctx, &l)
	if err != nil {
		return l, err
	}
	var reached mark
	if !isNew {
		if reached, err = readMark(j.cfg.Dir); err != nil {
			audit.findings = append(audit.findings, Finding{Where: "mark", What: err.Error(), Cost: "none, but a journal that was cut off would not be found", Harmless: true})
		}
	}
	known := reached.stream
	for _, snap := range snaps {
		if snap != nil {
			known = max(known, snap.from)
		}
	}
	if last, err = j.awaitApplied(ctx, last, known); err != nil {
		return l, err
	}
	l.last = last
	start := j.replica.resume(snaps, first, last)
	apply := func(sequence uint64, data []byte) error {
		if progress != nil && sequence%64 == 0 {
			progress(sequence-start+1, last-start+1)
		}
		if j.cfg.clustered() {
			return j.followOne(ctx, sequence, data)
		}
		return audit.apply(j.replica.holding, sequence, data)
	}
	if err := j.store.read(ctx, start, last, apply); err != nil {
		return l, fmt.Errorf("journal: replay: %w", err)
	}
	l.reached = max(last, known)
	if j.ofMany && known > last {
		l.reached = last
		audit.findings = append(audit.findings, Finding{Where: fmt.Sprintf("journal messages %d to %d", last+1, known), What: "acknowledged, and not in this replica",
			Cost: "none if the other nodes have them, which this can't tell", Harmless: true})
	}
	if j.cfg.clustered() {
		if err := j.followTo(ctx, last); err != nil {
			return l, fmt.Errorf("journal: replay: %w", err)
		}
	}
	audit.end(l.reached, last)
	l.findings = audit.findings
	j.stats.replayed(audit)
	return l, nil
}

// loadSnapshots loads the newest good snapshot of each partition and returns
// it, without its state; nil: there is none.
func (j *Journal) loadSnapshots(ctx context.Context, l *loaded) ([]*snapshot, error) {
	partitions := j.engine.Config().Partitions
	lists, findings, err := j.store.listSnapshots(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("journal: list of snapshots: %w", err)
	}
	l.have = make([][slots]kept, partitions)
	snaps := make([]*snapshot, partitions)
	spoiled := make([][]Finding, partitions)
	err = inParallel(partitions, func(partition int) error {
		for i, at := range lists[partition] {
			snap, err := j.loadSnapshot(ctx, at)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				spoiled[partition] = append(spoiled[partition], spoiledSnapshot(partition, at.slot, err))
				continue
			}
			snap.state, snap.receipts = nil, nil
			snaps[partition] = &snap
			for _, good := range lists[partition][i:] {
				l.have[partition][good.slot] = kept{good.from + 1, good.sequence}
			}
			return nil
		}
		return nil
	})
	audit := j.replica.audit
	audit.findings = slices.Concat(audit.findings, findings, slices.Concat(spoiled...))
	return snaps, err
}

func (j *Journal) loadSnapshot(ctx context.Context, at listed) (snapshot, error) {
	snap, err := j.store.getSnapshot(ctx, at)
	if err != nil {
		return snap, err
	}
	if origin := j.replica.audit.origin; snap.origin != origin && j.replica.audit.alone {
		return snap, fmt.Errorf("%w: of origin %x in place of %x", errDamaged, snap.origin, origin)
	}
	return snap, j.replica.loadSnapshot(snap)
}

// refuseForeignFiles keeps Weir out of a directory that holds something else.
func refuseForeignFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := refuseRestoring(dir, entries); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != lockFile && entry.Name() != manifestFile+".new" {
			return fmt.Errorf("data directory %s has no manifest, but holds %s: it is damaged, or not Weir's: choose an empty --data",
				dir, filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}
