package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/stream"
)

// goneEvery is how often a journal looks whether its files are there, beside each flush.
const goneEvery = time.Second

// goneAdvice is what to do where the files are gone.
const goneAdvice = "what was counted is not on disk any more, and hits are refused. If the directory was moved, stop this process, move it back and start again; else restore a backup into an empty directory (weir restore FILE --data DIR) and start with that. A start with an empty directory counts from 0"

// goneOfMany is what to do where those of a clustered node are gone.
const goneOfMany = "the other nodes have what this one wrote, and it must start again. If the directory was moved, stop this process, move it back and start again; a start with an empty directory takes all from the other nodes"

// noteFiles remembers which directories the embedded server and the journal write to. It is for
// Open.
func (j *Journal) noteFiles() (err error) {
	if !j.server.Embedded() {
		return nil
	}
	if j.dirThere, err = datadir.NotePresence(j.cfg.Dir); err != nil {
		return err
	}
	return j.noteServerFiles()
}

// noteServerFiles remembers the embedded server's. In a cluster the replicas of streams come
// and go: replicasGone looks for those.
func (j *Journal) noteServerFiles() (err error) {
	server := filepath.Join(j.cfg.Dir, datadir.ServerDir)
	paths := []string{server, filepath.Join(server, "jetstream")}
	if !j.cfg.clustered() {
		streams, err := filepath.Glob(filepath.Join(server, "jetstream", "*", "streams", stream.FlushStream))
		if err != nil {
			return err
		}
		paths = append(streams, paths...)
	}
	j.serverThere, err = datadir.NotePresence(paths...)
	return err
}

// lookForFiles is checkFiles of a node alone. In a cluster runHealing does it: what is
// acknowledged is on other nodes too, and flushes go on until the process ends.
func (j *Journal) lookForFiles() error {
	if j.cfg.clustered() {
		return nil
	}
	return j.checkFiles()
}

// checkFiles fails the journal, with a datadir.ErrGone, when the directories that it writes to
// are not at their places any more: writes succeed all the same, and nothing of them is there
// at the next start. They do not come back by themselves.
func (j *Journal) checkFiles() error {
	if j.serverThere == nil {
		return nil
	}
	err := j.dirThere.Check()
	if err == nil {
		err = j.serverThere.Check()
	}
	if err != nil {
		err = j.gone(err)
	}
	return err
}

// replicasGone tells whether the directory of the replicas is not there, though the embedded server of a clustered node keeps some.
// It may be so for a moment, when a replica comes or goes.
func (j *Journal) replicasGone() (path string, gone bool) {
	path = filepath.Join(j.cfg.Dir, datadir.ServerDir, "jetstream", "$G")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, false
	}
	streams, known := j.server.StreamsHere()
	return path, known && streams > 0
}

// gone fails the journal for its files.
func (j *Journal) gone(err error) error {
	if j.cfg.clustered() {
		err = fmt.Errorf("%w: %s", err, goneOfMany)
	} else {
		err = fmt.Errorf("%w: %s", err, goneAdvice)
		j.space.Refuse(j.engine, err.Error())
	}
	if j.fail(err) {
		j.stats.failed(err)
		j.log.Error("journal: its files are gone; this process must end", "error", err)
	}
	return err
}

// isGone tells whether the journal failed because its files are gone.
func (j *Journal) isGone() bool { return errors.Is(j.Err(), datadir.ErrGone) }

// runPresence looks for the files of a node alone until ctx is done, or they are gone: a flush may be rare, or
// wait for an answer.
func (j *Journal) runPresence(ctx context.Context) {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if j.lookForFiles() != nil {
			return
		}
	}
}
