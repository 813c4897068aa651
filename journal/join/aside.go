package join

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/weir-counter/weir/journal/join/ondisk"
)

// A node of a cluster whose files are damaged starts as one that lost its disk:
// without them. It then has no vote that counts until the others have given it
// what they have. With them it could be elected, and what it lacks would be gone
// from all: the others follow a leader, and throw away what it does not have.

// asideEnd is what is added to the name of a directory that is set aside.
const asideEnd = ".damaged"

// Aside is where the damaged files of a node with Config.Dir are, until Settled.
func Aside(dir string) string { return dir + asideEnd }

// setAside reads the files of a cluster's node, and moves them out of the way if
// they are damaged.
func (n *Node) setAside() (err error) {
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
	n.cfg.Logger.Warn("this node's replica is set aside, and copied anew from the other nodes, who must be up", "aside", Aside(dir))
	if _, err := os.Stat(Aside(dir)); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(dir, Aside(dir))
	} else if err != nil {
		return err
	}
	return os.RemoveAll(dir) // a copy that did not come to its end: what is aside is the original
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
// What was damaged is read from a log, or all were set aside.
func (n *Node) Damage() []ondisk.Damage { return n.damage }

// Settled notes what the next Open checks this node's files by, and removes those
// that were set aside. It is for who has made all streams, and found that nothing
// is missing from them.
func (n *Node) Settled(ctx context.Context) error {
	if n.server == nil || n.cfg.Cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	groups, streams := map[string]string{}, n.js.ListStreams(ctx)
	for stream := range streams.Info() {
		if stream.Cluster != nil && stream.Config.Replicas > 1 {
			groups[stream.Config.Name] = stream.Cluster.RaftGroup
		}
	}
	if err := streams.Err(); err != nil {
		return err
	}
	if err := ondisk.Note(n.cfg.Dir, groups); err != nil {
		return err
	}
	return os.RemoveAll(Aside(n.cfg.Dir))
}
