package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/cluster/join/ondisk"
)

// A node of a cluster whose files are damaged starts as one that lost its disk:
// without them. It then has no vote that counts until the others have given it
// what they have. With them it could be elected, and what it lacks would be gone
// from all: the others follow a leader, and throw away what it does not have.
//
// It does so only while enough others say that they are here and have all: they then
// have what this one lacks, and a leader. Where all find damage at once, as after a
// mistake of the check, nobody is here, and nothing is moved.

// quarantineSuffix is what is added to the name of a directory in quarantine, and the time.
const quarantineSuffix = ".damaged"

// Quarantined are where damaged files of a node with Config.Dir are, until Settled.
func Quarantined(dir string) ([]string, error) { return filepath.Glob(dir + quarantineSuffix + "*") }

// othersTime is how long the others are waited for.
const othersTime = time.Minute

// quarantine reads the files of a cluster's node, and moves them out of the way if
// they are damaged.
func (n *Node) quarantine(ctx context.Context) (err error) {
	dir := n.cfg.Dir
	if n.damage, err = ondisk.Check(dir, n.cfg.Unbroken); err != nil || len(n.damage) == 0 {
		return err
	}
	logged := 0 // damage of which a log has what was there
	for _, damage := range n.damage {
		n.cfg.Logger.Error("this node's replica is damaged", "file", damage.Path, "damage", damage.What)
		if damage.Index != "" {
			logged++
		}
	}
	if logged == len(n.damage) {
		return n.dropIndexes()
	}
	if err := n.awaitOthers(ctx); err != nil {
		return fmt.Errorf("this node's replica is damaged, nothing of it was changed, and it can't be copied again for now: %w: %s", err, n.damage[0])
	}
	to := dir + quarantineSuffix + time.Now().UTC().Format("-20060102T150405.000")
	n.cfg.Logger.Warn("moved this node's damaged replica to quarantine; copying it from the other nodes", "quarantine", to)
	return os.Rename(dir, to)
}

// awaitOthers returns when enough others are here that have all.
func (n *Node) awaitOthers(ctx context.Context) error {
	if n.cfg.Waiting != nil {
		n.cfg.Waiting("waiting for other nodes that have what this node's damaged replica lacks")
	}
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	for {
		here, needed, err := n.lookAtOthers(ctx)
		if err == nil && here >= needed {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%d other running nodes have all data, and %d are needed: start them first; if they report the same, read \"A damaged disk\" in docs/cluster-operations.md before anything else", here, needed)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lookEvery):
		}
	}
}

// dropIndexes makes the server read streams that are damaged at their end.
func (n *Node) dropIndexes() error {
	for _, damage := range n.damage {
		if err := os.Remove(damage.Index); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Damage is what was wrong with the files that this node found when it was opened.
// What was damaged is read from a log, or all were quarantined.
func (n *Node) Damage() []ondisk.Damage { return n.damage }

// Settled notes what the next Open checks this node's files by, removes those
// that were quarantined, and tells who asks from now on that this node has all. It is for
// who has made all streams, and found that nothing is missing from them.
func (n *Node) Settled(ctx context.Context) error {
	if !n.Embedded() || n.cfg.Cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	groups, streams := map[string]string{}, n.js.ListStreams(ctx)
	for stream := range streams.Info() {
		if at := stream.Cluster; at != nil && stream.Config.Replicas > 1 && stream.Config.MaxAge == 0 && n.keeps(at) {
			groups[stream.Config.Name] = at.RaftGroup
		}
	}
	if err := streams.Err(); err != nil {
		return err
	}
	if err := ondisk.Note(n.cfg.Dir, groups); err != nil {
		return err
	}
	n.here.Store(true)
	if err := n.tellHere(); err != nil {
		return err
	}
	if n.cfg.Unchecked {
		return nil // a person's word, and a person's to remove
	}
	quarantined, err := Quarantined(n.cfg.Dir)
	for _, dir := range quarantined {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
