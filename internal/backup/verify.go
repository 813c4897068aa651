package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// VerifyReport is what was found in a data directory.
type VerifyReport struct {
	Node       string           `json:"node,omitempty"`     // of a cluster; "": the directory is of a node alone, or of one with an existing NATS
	Origin     uint64           `json:"-"`                  // of its batches
	Epoch      uint64           `json:"epoch"`              // of the last process that wrote it
	Created    string           `json:"-"`                  // RFC 3339
	Partitions int              `json:"partitions"`         //
	Retention  time.Duration    `json:"-"`                  //
	Snapshots  int              `json:"snapshots"`          // that are sound
	Messages   uint64           `json:"-"`                  // in the journal
	First      uint64           `json:"first_message"`      // sequence of the first
	Last       uint64           `json:"last_message"`       // and of the last
	Bytes      int64            `json:"bytes"`              // of all files
	Keys       int              `json:"keys"`               // after the replay
	Hits       uint64           `json:"hits"`               // in AllKeys
	Replayed   uint64           `json:"replayed_flushes"`   // flushes that a start would replay
	Repeats    uint64           `json:"repeats"`            // messages and batches seen twice, and dropped
	Unfinished uint64           `json:"unfinished_flushes"` // flushes without all parts: never acknowledged
	Findings   []record.Finding `json:"findings"`
}

// Sound reports whether no hit was lost.
func (r VerifyReport) Sound() bool { return len(record.Losses(r.Findings)) == 0 }

// VerifyDirectory reads a whole data directory that no process uses: every snapshot of
// both slots, and every message of the journal, as a start would and more. It
// works on a copy of the embedded server's files, because that server repairs what
// it opens, so that the directory stays as it is. It needs as much space again,
// in the directory for temporary files.
//
// For a node of a cluster it reads what the node's replica has, of all origins, and
// the logs of replication, and asks no other node. What the replica lacks at its end, as after a crash, others may have:
// that is a finding, and no loss.
func VerifyDirectory(ctx context.Context, dir string) (r VerifyReport, err error) {
	lock, err := checkpoint.LockExistingDirectory(dir)
	if err != nil {
		return VerifyReport{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	m, _, err := checkpoint.LoadManifest(dir)
	if err != nil {
		return VerifyReport{Findings: []record.Finding{{Where: "manifest", What: err.Error(), Cost: "the directory can't be opened"}}}, nil
	}
	node, damaged, err := transport.Inspect(filepath.Join(dir, checkpoint.ServerDir), stream.FlushStream)
	if err != nil {
		return VerifyReport{}, err
	}
	copied, err := os.MkdirTemp("", "weir-verify-*")
	if err != nil {
		return VerifyReport{}, err
	}
	defer os.RemoveAll(copied)
	if err := copyAlone(dir, copied, node != ""); err != nil {
		return VerifyReport{}, err
	}
	r, err = verifyCopy(ctx, copied, m, node)
	r.Node, r.Bytes = node, checkpoint.DirectoryBytes(dir)
	for _, damage := range damaged {
		found := record.Finding{Where: damage.Path, What: damage.What, Cost: "this replica can't be used: its node copies it again when it starts"}
		if damage.Index != "" {
			found.Cost, found.Harmless = "none: the log of the replicas has what was there", true
		}
		r.Findings = append(r.Findings, found)
	}
	return r, err
}

func verifyCopy(ctx context.Context, dir string, m checkpoint.Manifest, node string) (r VerifyReport, err error) {
	r = VerifyReport{Origin: m.Origin, Epoch: m.Epoch, Created: m.Created, Partitions: m.Partitions, Retention: time.Duration(m.RetentionS) * time.Second}
	engine, err := newEngine(m.Partitions, m.RetentionS, nil)
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

func (d *directory) verifyOlder(ctx context.Context, r *VerifyReport) error {
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

// lackOf says what others may have that this directory does not.
func (d *directory) lackOf(ctx context.Context, dir string, m checkpoint.Manifest, ofMany bool) error {
	first, last, _, err := d.store.Bounds(ctx)
	if err != nil {
		return err
	}
	reached, err := checkpoint.ReadWatermark(dir)
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
		if origin == m.Origin || end.left || now.Sub(time.UnixMilli(end.at)) > replica.ForgetAfter || end.replaced(ends) || membership.WasRemoved(ctx, d.server.JetStream(), origin, end.at) {
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
	_, err := d.server.JetStream().KeyValue(ctx, MergesBucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	for _, end := range ends {
		if record.IsBackupName(end.node) {
			return fmt.Errorf("%w: backups were merged into this journal, and the list of them, %s, is kept by other nodes: the same hits could be counted a second time. "+
				"Leave with the directory of a node that keeps both, or take a backup of the running cluster: weir backup, weir restore", record.ErrDamaged, MergesBucket)
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

// replaced reports whether a node of the same name goes on in another directory.
func (e end) replaced(all map[uint64]end) bool {
	for _, other := range all {
		if other.node == e.node && other.at > e.at {
			return true
		}
	}
	return false
}

func (d *directory) ends(ctx context.Context, partitions int, first, last uint64) (map[uint64]end, error) {
	ends := map[uint64]end{}
	for partition := range partitions {
		snap, err := d.store.Newest(ctx, partition)
		if err != nil {
			return nil, err
		}
		if snap == nil {
			continue
		}
		for _, at := range snap.Positions {
			if at.At >= ends[at.Origin].at {
				ends[at.Origin] = end{at.Node, at.At, at.Left}
			}
		}
	}
	return ends, d.store.Read(ctx, first, last, func(_ uint64, data []byte) error {
		if p, err := record.DecodePart(data); err == nil && p.At >= ends[p.Origin].at {
			ends[p.Origin] = end{p.Node, p.At, p.Leaving}
		}
		return nil
	})
}
