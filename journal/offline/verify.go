package offline

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// Report is what Verify found in a data directory.
type Report struct {
	Node       string        // of a cluster; "": the directory is of a node alone, or of one with an existing NATS
	Origin     uint64        // of its batches
	Epoch      uint64        // of the last process that wrote it
	Created    string        // RFC 3339
	Partitions int           //
	Retention  time.Duration //
	Snapshots  int           // that are sound
	Messages   uint64        // in the journal
	First      uint64        // sequence of the first
	Last       uint64        // and of the last
	Bytes      int64         // of all files
	Keys       int           // after the replay
	Hits       uint64        // in AllKeys
	Replayed   uint64        // flushes that a start would replay
	Repeats    uint64        // messages and batches seen twice, and dropped
	Unfinished uint64        // flushes without all parts: never acknowledged
	Findings   []record.Finding
}

// Sound tells whether no hit was lost.
func (r Report) Sound() bool { return len(record.Losses(r.Findings)) == 0 }

// Verify reads a whole data directory that no process uses: every snapshot of
// both slots, and every message of the journal, as a start would and more. It
// works on a copy of the embedded server's files, because that server repairs what
// it opens, so that the directory stays as it is. It needs as much space again,
// in the directory for temporary files.
//
// Of a node of a cluster it reads what that one's replica has, of all origins, and
// the logs that it is replicated by, and asks nobody. What the replica does not
// have at its end, as after a crash, others may have; that is a finding, and no loss.
func Verify(ctx context.Context, dir string) (r Report, err error) {
	lock, err := datadir.LockExisting(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	m, _, err := datadir.LoadManifest(dir)
	if err != nil {
		return Report{Findings: []record.Finding{{Where: "manifest", What: err.Error(), Cost: "the directory can't be opened"}}}, nil
	}
	node, damaged, err := join.Inspect(filepath.Join(dir, datadir.ServerDir), stream.FlushStream)
	if err != nil {
		return Report{}, err
	}
	copied, err := os.MkdirTemp("", "weir-verify-*")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(copied)
	if err := datadir.Copy(dir, copied); err != nil {
		return Report{}, err
	}
	if node != "" {
		if err := join.Alone(filepath.Join(copied, datadir.ServerDir)); err != nil {
			return Report{}, err
		}
	}
	r, err = verifyCopy(ctx, copied, m, node)
	r.Node, r.Bytes = node, datadir.Bytes(dir)
	for _, damage := range damaged {
		found := record.Finding{Where: damage.Path, What: damage.What, Cost: "this replica can't be used: its node copies it again when it starts"}
		if damage.Index != "" {
			found.Cost, found.Harmless = "none: the log of the replicas has what was there", true
		}
		r.Findings = append(r.Findings, found)
	}
	return r, err
}

func verifyCopy(ctx context.Context, dir string, m datadir.Manifest, node string) (r Report, err error) {
	r = Report{Origin: m.Origin, Epoch: m.Epoch, Created: m.Created, Partitions: m.Partitions, Retention: time.Duration(m.RetentionS) * time.Second}
	engine, err := weir.New(weir.Config{Partitions: m.Partitions, Retention: r.Retention, Memory: backup.Unbounded, Gather: true, Clock: weir.EventClock})
	if err != nil {
		return r, err
	}
	defer engine.Close()
	d, missing, err := open(ctx, dir, m, slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	defer d.close()
	if d.store == nil {
		r.Findings = missing
		return r, nil
	}
	rep := replica.New(engine, m.Origin, "", node != "")
	rep.Sets = m.ClockSet
	loaded, err := checkpoint.Start{Store: d.store, Replica: rep, Partitions: m.Partitions, Dir: dir, ReplicaOf: node != ""}.Load(ctx)
	if err != nil {
		return r, err
	}
	r.Findings = loaded.Findings
	if err := d.verifyOlder(ctx, &r); err != nil {
		return r, err
	}
	first, last, _, err := d.store.Bounds(ctx)
	s := engine.Stats()
	r.First, r.Last, r.Messages, r.Keys, r.Hits = first, last, last+1-first, s.Keys, s.Hits
	r.Replayed, r.Repeats, r.Unfinished = rep.Replayed()
	return r, err
}

// verifyOlder reads the snapshots that load did not need.
func (d *directory) verifyOlder(ctx context.Context, r *Report) error {
	lists, _, err := d.store.ListSnapshots(ctx, r.Partitions) // load has the findings
	if err != nil {
		return err
	}
	for _, list := range lists {
		for i, at := range list {
			_, err := d.store.GetSnapshot(ctx, at)
			switch {
			case err == nil:
				r.Snapshots++
			case i > 0: // load said so of the newest
				r.Findings = append(r.Findings, record.SpoiledSnapshot(at.Partition, at.Slot, err))
			}
		}
	}
	return nil
}
