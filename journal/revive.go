package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// revive restarts the embedded server of a single node if it refuses to write for
// good, as it does after one full disk, and there is room again. It looks only
// when something failed since it last found all well. Only the flusher calls it:
// no flush is under way. In a cluster healing.go does it.
//
// The flush that failed is in the stream, or not, or cut: the server removes a
// message that is cut when it starts. Sent again it may be there twice; a start
// drops the repeat (audit.go).
func (j *Journal) revive(ctx context.Context) error {
	if !j.suspect.Load() || j.cfg.clustered() {
		return nil
	}
	wrong := j.server.Health()
	if wrong == nil {
		j.suspect.Store(false)
		return nil
	}
	if err := tryRoom(j.cfg.Dir); err != nil {
		return fmt.Errorf("%w: make room on the disk of the data directory (%w)", wrong, err)
	}
	j.log.Warn("journal: the embedded server still reports an error although the disk has room; restarting it", "error", wrong)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	j.server.Stop()
	if err := j.server.Start(ctx); err != nil {
		return err
	}
	if err := j.server.AwaitJetStream(ctx); err != nil {
		return err
	}
	if err := j.continues(ctx); err != nil {
		j.server.Stop()
		return err
	}
	j.stats.revivals.Add(1)
	j.suspect.Store(false)
	return nil
}

// continues tells whether a server that was restarted has all that was acknowledged.
func (j *Journal) continues(ctx context.Context) error {
	_, missing, err := openStore(ctx, j.server, j.manifest, false)
	if err == nil && len(missing) > 0 {
		err = &DamageError{Findings: missing}
	}
	if err != nil {
		return err
	}
	_, last, _, err := j.store.bounds(ctx)
	if err == nil && last < j.flusher.last {
		err = fmt.Errorf("the journal ends at message %d, and %d was acknowledged: stop the server, and look with weir verify", last, j.flusher.last)
	}
	return err
}

// roomBytes is more than any message is with its frame.
const roomBytes = 2 << 20

// tryRoom tells whether the disk takes some MiB.
func tryRoom(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, roomFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, roomBytes)); err != nil {
		return err
	}
	return file.Sync()
}
