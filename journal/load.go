package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weir-counter/weir"
)

// loaded is what a start found.
type loaded struct {
	findings []Finding
	have     [][slots]uint64 // see snapshotter
	last     uint64          // sequence of the stream's last message
	reached  uint64          // the last sequence that is known to have been there
	bytes    uint64          // of the journal
}

// load brings the engine to where the journal ends: for each partition the
// newest good snapshot, then the batches after it, in order, audited.
func (j *Journal) load(ctx context.Context, m manifest, isNew bool, missing []Finding, progress func(done, all uint64)) (loaded, error) {
	var l loaded
	audit := newAuditor(m.Origin, m.Partitions)
	audit.findings, audit.alone = missing, !j.cfg.clustered()
	j.follower.audit = audit
	first, last, bytes, err := j.store.bounds(ctx)
	if err != nil {
		return l, err
	}
	l.last, l.bytes = last, bytes
	froms, err := j.loadSnapshots(ctx, audit, &l)
	if err != nil {
		return l, err
	}
	var reached mark
	if !isNew {
		if reached, err = readMark(j.cfg.Dir); err != nil {
			audit.findings = append(audit.findings, Finding{Where: "mark", What: err.Error(), Cost: "none, but a journal that was cut off would not be found", Harmless: true})
		}
	}
	start := startOfReplay(froms, last)
	if start < first {
		audit.find(fmt.Sprintf("journal messages %d to %d", start, first-1), "trimmed, but some partitions have no sound snapshot after them", "the hits of those partitions")
		start = first
	}
	audit.stream = start - 1
	apply := func(sequence uint64, data []byte) error {
		if progress != nil && sequence%64 == 0 {
			progress(sequence-start+1, last-start+1)
		}
		return audit.apply(j.engine, sequence, data)
	}
	if err := j.store.read(ctx, start, last, apply); err != nil {
		return l, fmt.Errorf("journal: replay: %w", err)
	}
	l.reached = max(last, reached.stream, slices.Max(froms))
	audit.end(l.reached, last)
	l.findings = audit.findings
	j.stats.replayed(audit)
	return l, nil
}

// apply takes the next message of the journal, and counts what it completes:
// partitions side by side, the batches of each in order.
func (a *auditor) apply(engine *weir.Engine, sequence uint64, data []byte) error {
	return a.applyParts(engine, a.message(sequence, data))
}

// applyParts counts a flush that is complete.
func (a *auditor) applyParts(engine *weir.Engine, parts []part) error {
	for _, p := range parts {
		var fresh [][]batch // by partition
		for _, b := range p.batches {
			if !a.batch(p.life, b) || p.life == a.self {
				continue
			}
			if last := len(fresh) - 1; last >= 0 && fresh[last][0].partition == b.partition {
				fresh[last] = append(fresh[last], b)
			} else {
				fresh = append(fresh, []batch{b})
			}
		}
		if err := inParallel(len(fresh), func(i int) error {
			for _, b := range fresh[i] {
				engine.Apply(b.partition, b.deltas)
				if err := engine.ApplyAdmissions(b.partition, b.admissions); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if p.life == a.self {
			continue
		}
		if err := engine.LoadReceipts(p.receipts); err != nil {
			return err
		}
	}
	return nil
}

// startOfReplay is the first message that some partition needs.
func startOfReplay(froms []uint64, last uint64) uint64 {
	start := last + 1
	for _, from := range froms {
		start = min(start, from+1)
	}
	return start
}

// loadSnapshots loads the newest good snapshot of each partition and returns
// the position that each is good for.
func (j *Journal) loadSnapshots(ctx context.Context, audit *auditor, l *loaded) ([]uint64, error) {
	partitions := j.engine.Config().Partitions
	lists, findings, err := j.store.listSnapshots(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("journal: list of snapshots: %w", err)
	}
	l.have = make([][slots]uint64, partitions)
	froms := make([]uint64, partitions)
	positions := make([][]originPosition, partitions)
	spoiled := make([][]Finding, partitions)
	err = inParallel(partitions, func(partition int) error {
		for i, at := range lists[partition] {
			snap, err := j.loadSnapshot(ctx, at, audit.origin)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				spoiled[partition] = append(spoiled[partition], spoiledSnapshot(partition, at.slot, err))
				continue
			}
			positions[partition] = snap.positions
			froms[partition] = snap.from
			for _, good := range lists[partition][i:] {
				l.have[partition][good.slot] = good.from + 1
			}
			return nil
		}
		return nil
	})
	for partition, list := range positions {
		audit.resume(partition, list)
	}
	audit.findings = slices.Concat(audit.findings, findings, slices.Concat(spoiled...))
	return froms, err
}

func (j *Journal) loadSnapshot(ctx context.Context, at listed, origin uint64) (snapshot, error) {
	snap, err := j.store.getSnapshot(ctx, at)
	if err != nil {
		return snap, err
	}
	if snap.origin != origin && !j.cfg.clustered() {
		return snap, fmt.Errorf("%w: of origin %x in place of %x", errDamaged, snap.origin, origin)
	}
	if err := j.engine.LoadReceipts(snap.receipts); err != nil {
		return snap, err
	}
	return snap, j.engine.LoadState(at.partition, snap.state)
}

// refuseForeignFiles keeps Weir out of a directory that holds something else.
func refuseForeignFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
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
