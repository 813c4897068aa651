package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/join"
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
	Findings   []Finding
}

// Sound tells whether no hit was lost.
func (r Report) Sound() bool { return len(lossy(r.Findings)) == 0 }

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
	lock, err := lockExisting(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	m, _, err := loadManifest(dir)
	if err != nil {
		return Report{Findings: []Finding{{Where: "manifest", What: err.Error(), Cost: "the directory can't be opened"}}}, nil
	}
	node, damaged, err := join.Inspect(filepath.Join(dir, serverDir), flushStream)
	if err != nil {
		return Report{}, err
	}
	copied, err := os.MkdirTemp("", "weir-verify-*")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(copied)
	if err := copyData(dir, copied); err != nil {
		return Report{}, err
	}
	if node != "" {
		if err := join.Alone(filepath.Join(copied, serverDir)); err != nil {
			return Report{}, err
		}
	}
	r, err = verifyCopy(ctx, copied, m, node)
	r.Node, r.Bytes = node, dirBytes(dir)
	for _, damage := range damaged {
		found := Finding{Where: damage.Path, What: damage.What, Cost: "this replica can't be used: its node copies it again when it starts"}
		if damage.Index != "" {
			found.Cost, found.Harmless = "none: the log of the replicas has what was there", true
		}
		r.Findings = append(r.Findings, found)
	}
	return r, err
}

func verifyCopy(ctx context.Context, dir string, m manifest, node string) (r Report, err error) {
	r = Report{Origin: m.Origin, Epoch: m.Epoch, Created: m.Created, Partitions: m.Partitions, Retention: time.Duration(m.RetentionS) * time.Second}
	engine, err := weir.New(weir.Config{Partitions: m.Partitions, Retention: r.Retention, Memory: unbounded, Gather: true, Clock: weir.EventClock})
	if err != nil {
		return r, err
	}
	defer engine.Close()
	j := &Journal{cfg: Config{Dir: dir}.withDefaults(), engine: engine, ofMany: node != ""}
	j.log = j.cfg.Logger
	defer func() { err = errors.Join(err, j.release()) }()
	if j.server, err = startServer(ctx, Config{Dir: dir, MaxBytes: unbounded, Logger: j.log}); err != nil {
		return r, err
	}
	var missing []Finding
	if j.store, missing, err = openStore(ctx, j.server, m, false); err != nil {
		return r, err
	}
	if j.store == nil {
		r.Findings = missing
		return r, nil
	}
	loaded, err := j.load(ctx, m, false, nil, nil)
	if err != nil {
		return r, err
	}
	r.Findings = loaded.findings
	if err := j.verifyOlder(ctx, &r); err != nil {
		return r, err
	}
	first, last, _, err := j.store.bounds(ctx)
	s := engine.Stats()
	r.First, r.Last, r.Messages, r.Keys, r.Hits = first, last, last+1-first, s.Keys, s.Hits
	r.Replayed, r.Repeats, r.Unfinished = j.stats.replays, j.stats.repeats, j.stats.unfinished
	return r, err
}

// verifyOlder reads the snapshots that load did not need.
func (j *Journal) verifyOlder(ctx context.Context, r *Report) error {
	lists, _, err := j.store.listSnapshots(ctx, r.Partitions) // load has the findings
	if err != nil {
		return err
	}
	for _, list := range lists {
		for i, at := range list {
			_, err := j.store.getSnapshot(ctx, at)
			switch {
			case err == nil:
				r.Snapshots++
			case i > 0: // load said so of the newest
				r.Findings = append(r.Findings, spoiledSnapshot(at.partition, at.slot, err))
			}
		}
	}
	return nil
}

// lockExisting locks a data directory that must be there.
func lockExisting(dir string) (*dirLock, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("data directory %s: it is a file", dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); errors.Is(err, fs.ErrNotExist) { // before the lock leaves a file in it
		return nil, fmt.Errorf("data directory %s has no manifest: it is not one of Weir's, or nothing was ever written to it", dir)
	}
	return lockDir(dir)
}

// copyData copies what belongs to a data directory, but for the lock.
func copyData(from, to string) error {
	for _, name := range []string{manifestFile, markFile} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(to, serverDir), os.DirFS(filepath.Join(from, serverDir)))
}

func dirBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
