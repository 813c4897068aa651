package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/stream"
)

// goneEvery is how often a journal looks whether its files are there, beside each flush.
const goneEvery = time.Second

// goneAdvice is what to do where the files are gone.
const goneAdvice = "what was counted is not on disk any more, and hits are refused. If the directory was moved, stop this process, move it back and start again; else restore a backup into an empty directory (weir restore FILE --data DIR) and start with that. A start with an empty directory counts from 0"

// noteFiles remembers which directories the journal of a node alone writes to. It is for Open.
// In a cluster the other nodes have what one lost.
func (j *Journal) noteFiles() (err error) {
	if j.cfg.clustered() || !j.server.Embedded() {
		return nil
	}
	if j.dirThere, err = datadir.NotePresence(j.cfg.Dir); err != nil {
		return err
	}
	return j.noteServerFiles()
}

// noteServerFiles remembers the embedded server's.
func (j *Journal) noteServerFiles() error {
	server := filepath.Join(j.cfg.Dir, datadir.ServerDir)
	streams, err := filepath.Glob(filepath.Join(server, "jetstream", "*", "streams", stream.FlushStream))
	if err != nil {
		return err
	}
	j.serverThere, err = datadir.NotePresence(append(streams, server, filepath.Join(server, "jetstream"))...)
	return err
}

// lookForFiles fails the journal, with a datadir.ErrGone, when the directories that it writes to
// are not at their places any more: writes succeed all the same, and nothing of them is there
// at the next start. They do not come back by themselves.
func (j *Journal) lookForFiles() error {
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

// gone fails the journal for its files.
func (j *Journal) gone(err error) error {
	err = fmt.Errorf("%w: %s", err, goneAdvice)
	j.space.Refuse(j.engine, err.Error())
	if j.fail(err) {
		j.stats.failed(err)
		j.log.Error("journal: its files are gone; this process must end", "error", err)
	}
	return err
}

// isGone tells whether the journal failed because its files are gone.
func (j *Journal) isGone() bool { return errors.Is(j.Err(), datadir.ErrGone) }

// runPresence looks for the files until ctx is done, or they are gone: a flush may be rare, or
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
